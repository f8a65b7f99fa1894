"""Any file of equalities decides, once imported, as Limitador would, whichever limits hold together."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate import Limiter
from headgate.importing.limitador import read_limitador
from headgate.testing import FakeClock
from tests.model.limitador import Limit, Limitador
from tests.properties.strategies import examples

START_S = 1_760_000_000
# `method` is a fact of its own here, the others are descriptors. Most requests have most of them, so that limits meet.
KEYS = ["method", "app", "req.plan"]
VALUES = ["A", "A", "B"]
NAMESPACES = ["edge", "edge", "edge", "inner"]


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    conditions = tuple((key, draw(st.sampled_from(VALUES))) for key in keys)
    variables = tuple(draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True)))
    # A limit of nothing blocks, also those who have not what it counts by: that is said, and not compared here.
    least = 1 if variables else 0
    return Limit(
        draw(st.sampled_from(NAMESPACES)),
        draw(st.integers(least, 3)),
        draw(st.sampled_from([7, 60, 60])),
        conditions,
        variables,
    )


requests = st.tuples(
    st.sampled_from(NAMESPACES),
    st.fixed_dictionaries({key: st.sampled_from([*VALUES, None]) for key in KEYS}),
)


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[int, str, dict[str, str]]]:
    """A few requests, each sent often: limits are met by the same one coming again."""
    pool = draw(st.lists(requests, min_size=2, max_size=3))
    order = draw(
        st.lists(st.tuples(st.sampled_from([0, 0, 0, 0, 0, 0, 5, 60]), st.sampled_from(pool)), min_size=12, max_size=25)
    )
    return [
        (advance, namespace, {key: value for key, value in values.items() if value is not None})
        for advance, (namespace, values) in order
    ]


def written(limit: Limit, is_cel: bool) -> dict[str, Any]:
    key = "descriptors[0]['{}']" if is_cel else "{}"
    return {
        "namespace": limit.namespace,
        "max_value": limit.max_value,
        "seconds": limit.seconds,
        "conditions": [f"{key.format(name)} == '{value}'" for name, value in limit.conditions],
        "variables": [key.format(name) for name in limit.variables],
    }


@examples(250)
@given(st.lists(limits(), min_size=3, max_size=8), st.booleans(), steps())
def test_imported_limits_decide_as_limitador_does(
    given_limits: list[Limit], is_cel: bool, given_steps: list[tuple[int, str, dict[str, str]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "limits.json"
        path.write_text(json.dumps([written(limit, is_cel) for limit in given_limits]))
        imported = read_limitador([path])
    assert not [note for note in imported.notes if note.level == "cannot"]
    clock = FakeClock(START_S)
    limiter = Limiter(imported.document, clock=clock)
    theirs = Limitador(given_limits)
    now = START_S
    for advance, namespace, values in given_steps:
        clock.advance(advance)
        now += advance
        others = {key: value for key, value in values.items() if key != "method"}
        ours = limiter.check(method=values.get("method"), descriptors={"domain": namespace, **others})
        assert ours.allowed is theirs.check(namespace, values, now), (ours, imported.document)
