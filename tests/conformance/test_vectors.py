"""Every store gives the answers of tests/vectors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.stores import PATIENT_S, Store
from tests.engine import SubjectUnderTest
from tests.vectors import format as vector_format
from tests.vectors.format import Vector, first_limit, limit_from

FILES = sorted(Path(vector_format.__file__).parent.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_store_answers_as_the_vectors_say(store: Store, path: Path) -> None:
    vectors: list[Vector] = json.loads(path.read_text(encoding="utf-8"))
    assert vectors
    for vector in vectors:
        store.flush()
        play(store, vector)


def play(store: Store, vector: Vector) -> None:
    limit = first_limit(vector)
    options = {"store": store.url, "store_deadline": PATIENT_S, "refused_memory": False}
    subject = SubjectUnderTest(limit, vector["start_us"], **options)
    for number, step in enumerate(vector["steps"]):
        changed = limit_from(step, limit)
        if changed != limit:
            limit = changed
            subject.change(limit)
        assert subject.play(step) == step.get("expect"), f"{vector['name']}, step {number}: {step}"
