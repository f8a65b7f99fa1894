"""A path has one spelling, and no other spelling of it dodges a limit (SEMANTICS 1.1)."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from headgate._core import normalise_path
from tests.engine import Clocked
from tests.model.paths import normalise
from tests.properties.strategies import START_US, examples

ESCAPES = "% %2 %2F %2f %25 %2e %41 %3F %00 %0a %7f %C3%A9 %C3 %ff %E2%82%AC %ED%A0%80 %F0%9F%98%80"
PLAIN = "/ // a b . .. ? # é + \\ ; {"
pieces = st.sampled_from([*ESCAPES.split(), *PLAIN.split(), " ", "\n", "\x7f"])
paths = st.one_of(st.lists(pieces, max_size=12).map("".join), st.text(max_size=40))
segments = st.text(
    st.characters(codec="utf-8", exclude_characters="/%?#{}*", exclude_categories=["Cc"]),
    min_size=1,
    max_size=8,
).filter(lambda text: text not in (".", ".."))


@examples(500)
@given(path=paths)
def test_normalising_is_what_the_model_says_and_twice_is_once(path: str) -> None:
    once = normalise_path(path)
    assert once == normalise(path)
    assert normalise_path(once) == once


@st.composite
def spellings(draw: st.DrawFn, of: list[str]) -> str:
    """Another way to write the same path."""
    out = []
    for segment in of:
        out.append("/" * draw(st.integers(1, 3)))
        if draw(st.booleans()):
            out.append(draw(st.sampled_from(["./", "%2e/", "x/../", "q/%2E%2e/", "a/b/../../"])))
        for char in segment:
            how = draw(st.integers(0, 3))
            encoded = "".join(f"%{byte:02X}" for byte in char.encode())
            out.append(encoded if how == 0 else encoded.lower() if how == 1 else char)
    out.append(draw(st.sampled_from(["", "/", "//", "/.", "?", "?q=/x", "#top", "/?x", "/x/.."])))
    return "".join(out)


@examples(100)
@given(data=st.data(), target=st.lists(segments, min_size=1, max_size=4))
def test_no_spelling_of_a_path_dodges_a_limit(data: st.DataObject, target: list[str]) -> None:
    """The rule is for exactly this path, three a minute; and another counts each endpoint."""
    endpoint = normalise_path("/" + "/".join(target))
    rules = [
        {"name": "exact", "match": {"endpoint": endpoint}, "by": "global", "limit": "3/minute"},
        {"name": "each", "by": "endpoint", "limit": "3/minute"},
    ]
    engine = Clocked(START_US)
    engine.engine.load_rules(json.dumps({"rules": rules}))
    allowed = 0
    for _ in range(6):
        decision = engine.engine.check(path=data.draw(spellings(target)))
        assert {item.rule for item in decision.results} == {"exact", "each"}
        allowed += decision.allowed
    assert allowed == 3


@examples(100)
@given(data=st.data(), target=st.lists(segments, min_size=1, max_size=4))
def test_spellings_of_an_unruled_path_share_its_counter(data: st.DataObject, target: list[str]) -> None:
    engine = Clocked(START_US)
    engine.engine.load_rules(json.dumps({"rules": [{"name": "each", "by": "endpoint", "limit": "3/minute"}]}))
    allowed = [bool(engine.engine.check(path=data.draw(spellings(target)))) for _ in range(5)]
    assert allowed == [True, True, True, False, False]


def test_parameters_count_together_and_bare_paths_apart() -> None:
    rules = [{"name": "each", "match": {"endpoint": ["/users/{id}", "/*"]}, "by": "endpoint", "limit": "2/minute"}]
    engine = Clocked(START_US)
    engine.engine.load_rules(json.dumps({"rules": rules}))
    assert [bool(engine.engine.check(path=f"/users/{number}")) for number in range(3)] == [True, True, False]
    assert [bool(engine.engine.check(path=f"/other/{number}")) for number in range(3)] == [True, True, False]
    engine.engine.load_rules(json.dumps({"rules": [rules[0] | {"match": {}}]}))
    assert all(engine.engine.check(path=f"/free/{number}") for number in range(9))
