"""The engine gives the answers of tests/vectors, and those files are what their generator writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine import SubjectUnderTest
from tests.vectors import make
from tests.vectors.format import Vector, first_limit, limit_from

FOLDER = Path(make.__file__).parent


def vectors() -> Iterator[Vector]:
    for path in sorted(FOLDER.glob("*.json")):
        yield from json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", list(vectors()), ids=lambda vector: vector["name"])
def test_the_engine_answers_as_the_vector_says(vector: Vector) -> None:
    limit = first_limit(vector)
    engine = SubjectUnderTest(limit, vector["start_us"])
    for number, step in enumerate(vector["steps"]):
        changed = limit_from(step, limit)
        if changed != limit:
            limit = changed
            engine.change(limit)
        assert engine.play(step) == step.get("expect"), f"step {number}: {step}"


def test_the_files_are_what_the_generator_writes() -> None:
    written = make.files()
    assert {path.name for path in FOLDER.glob("*.json")} == set(written)
    for name, content in written.items():
        same = (FOLDER / name).read_text(encoding="utf-8") == content
        assert same, f"{name} differs from what `python -m tests.vectors.make` writes"


def test_numbers_survive_a_double() -> None:
    def numbers(value: object) -> Iterator[int]:
        if isinstance(value, dict):
            for item in value.values():
                yield from numbers(item)
        elif isinstance(value, list):
            for item in value:
                yield from numbers(item)
        elif isinstance(value, int):
            yield value

    assert max(numbers(list(vectors()))) < 2**53


def test_every_verb_and_every_algorithm_is_covered() -> None:
    seen = {(vector["algorithm"], step["op"]) for vector in vectors() for step in vector["steps"]}
    algorithms = {vector["algorithm"] for vector in vectors()}
    assert len(algorithms) == 5
    assert seen == {(name, op) for name in algorithms for op in ("check", "peek", "refund", "commit")}
