"""Rule documents keep their places: every mistake is reported where it was written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headgate.errors import RulesFileError
from headgate.model import document
from headgate.model.document import parse_text, read_document

YAML = """\
# a comment
tiers: [free, premium]
rules:
  - name: login
    match:
      tier: free
      endpoint: /login
    by: user
    limit: 5/minute
  - name: "all"
    by: [ip, endpoint]
    limit:
      - 100/second burst 200
      - {limit: 5000/hour, label: hourly}
overrides:
  - user: 42
    limit: 9/minute
"""


def read(text: str, *, is_json: bool = False) -> document.Document:
    return parse_text(text, "rules.yaml", is_json=is_json)


def mistakes_of(text: str, *, is_json: bool = False) -> list[str]:
    with pytest.raises(RulesFileError) as caught:
        read(text, is_json=is_json)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ((), 2, 1),
        (("tiers",), 2, 8),
        (("tiers", 1), 2, 15),
        (("rules",), 3, 1),
        (("rules", 0), 4, 5),
        (("rules", 0, "name"), 4, 11),
        (("rules", 0, "match"), 5, 5),
        (("rules", 0, "match", "endpoint"), 7, 17),
        (("rules", 0, "limit"), 9, 12),
        (("rules", 1, "name"), 10, 11),
        (("rules", 1, "by", 1), 11, 14),
        (("rules", 1, "limit", 0), 13, 9),
        (("rules", 1, "limit", 1, "label"), 14, 35),
        (("overrides", 0, "user"), 16, 11),
        # what does not exist is reported at the nearest thing that does
        (("rules", 1, "match", "tier"), 10, 5),
        (("rules", 7), 3, 1),
        (("rules", 0, "limit", 3), 9, 12),
        (("rules", "limit"), 3, 1),
        (("nothing",), 2, 1),
    ],
)
def test_a_path_is_found_in_yaml(path: tuple[str | int, ...], line: int, column: int) -> None:
    mistake = read(YAML).mistake(path, "wrong")
    assert (mistake.line, mistake.column) == (line, column)


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ((), 1, 1),
        (("rules", 0), 2, 12),
        (("rules", 0, "limit"), 3, 13),
        (("rules", 0, "match", "user"), 4, 31),
        (("rules", 0, "by"), 2, 12),
    ],
)
def test_a_path_is_found_in_json_even_when_it_is_indented_with_tabs(
    path: tuple[str | int, ...], line: int, column: int
) -> None:
    text = '{\n\t"rules": [{"name": "a",\n\t\t"limit":\t "5/minute",\n\t\t"match": {"tier":"x","user":[1]}}]}'
    mistake = read(text, is_json=True).mistake(path, "wrong")
    assert (mistake.line, mistake.column) == (line, column)


def test_a_mistake_prints_as_file_line_column_path_message() -> None:
    assert str(read(YAML).mistake(("rules", 0, "limit"), "no")) == "rules.yaml:9:12: rules[0].limit: no"


def test_a_mistake_stays_on_one_line_and_shows_no_control_characters() -> None:
    text = str(read(YAML).mistake(("rules", 0, "a\nb"), "bad \x1b[31m\nvalue"))
    assert "\n" not in text
    assert "\x1b" not in text


def test_mistakes_come_in_the_order_of_the_text() -> None:
    found = read(YAML).mistakes([(("overrides", 0, "limit"), "c"), (("rules", 1, "by"), "b"), (("tiers",), "a")])
    assert [mistake.message for mistake in found] == ["a", "b", "c"]


def test_yaml_and_json_give_the_engine_the_same_data() -> None:
    value = json.loads(read(YAML).json)
    assert json.loads(read(json.dumps(value), is_json=True).json) == value
    assert value["overrides"] == [{"user": 42, "limit": "9/minute"}]
    assert read(YAML).rule_count == 2


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("on", "on"),
        ("0123", "0123"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0x1f", "0x1f"),
        (".inf", ".inf"),
        ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z"),
        ("2030-01-31", "2030-01-31"),
        ("=", "="),
        ("42", 42),
        ("-7", -7),
        ("1.5", 1.5),
        ("'42'", "42"),
        ("!!str 42", "42"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
    ],
)
def test_only_words_that_json_knows_are_more_than_text(written: str, meant: object) -> None:
    value = json.loads(read(f"rules:\n  - name: {written}\n").json)
    assert value["rules"][0]["name"] == meant
    assert type(value["rules"][0]["name"]) is type(meant)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "1:1", "empty"),
        ("# only a comment\n", "1:1", "empty"),
        ("- name: a\n", "1:1", "put `rules:` above this list"),
        ("just words", "1:1", "expected a mapping"),
        ("rules: [\n", "2:1", "not YAML"),
        ("rules:\n\t- name: a\n", "2:1", "tab"),
        ("rules:\n  - name: a: b\n", "2:12", "not YAML"),
        ("rules: []\n---\nrules: []\n", "2:1", "one document"),
        ("rules: []\nx: \x07\n", "2:4", "not allowed in YAML"),
        ("rules: *nowhere\n", "1:8", "names nothing above it"),
        ("rules: &r\n  - *r\n", "2:5", "stands inside what it names"),
        ("rules: &r [&s [*r]]\n", "1:16", "stands inside what it names"),
        ("rules: !!python/object:os.system x\n", "1:8", "not allowed here"),
        ("rules: !!binary aGk=\n", "1:8", "!!binary is not allowed"),
        ("rules: !!set {a}\n", "1:8", "!!set is not allowed"),
        ("? [a]\n: b\n", "1:3", "a key must be text"),
        ("rules: []\nrules: []\n", "2:1", "`rules` is written twice"),
        (
            "rules:\n  - name: a\n    by: ip\n    name: b\n",
            "4:5",
            "`name` is written twice in one mapping (first on line 2)",
        ),
        ("rules:\n  - <<: 3\n", "2:5", "merges a mapping"),
        ("rules:\n  - user: 12345678901234567890\n", "2:11", "too large"),
        ("rules:\n  - user: 1e999\n", "2:11", "too large"),
        ("rules: " + "[" * 40 + "]" * 40, "1:39", "deeper than 32"),
    ],
)
def test_what_yaml_alone_gets_wrong_is_located(text: str, place: str, words: str) -> None:
    try:
        found = [str(mistake) for mistake in read(text).flaws]
    except RulesFileError as error:
        found = str(error).splitlines()
    assert found[0].startswith(f"rules.yaml:{place}: ")
    assert words in found[0]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "1:1", "not JSON"),
        ('{"rules": [}', "1:12", "not JSON"),
        ('{"rules": [\n  {"name" "a"}\n]}', "2:11", "not JSON"),
        ('{"rules": []} x', "1:15", "Extra data"),
        ("[]", "1:1", "put `rules:` above"),
        ('{"rules": [],\n "rules": []}', "2:2", "written twice"),
        ('{"rules": "\\ud800"}', "1:11", "surrogate"),
        ('{"rules": ' + "1" * 5000 + "}", "1:11", "too large"),
        ('{"rules": ' + "[" * 100_000, "1:42", "deeper than 32"),
    ],
)
def test_what_json_alone_gets_wrong_is_located(text: str, place: str, words: str) -> None:
    try:
        found = [str(mistake) for mistake in read(text, is_json=True).flaws]
    except RulesFileError as error:
        found = str(error).splitlines()
    assert found[0].startswith(f"rules.yaml:{place}: ")
    assert words in found[0]


def test_json_that_is_not_a_number_is_refused() -> None:
    assert "NaN" in mistakes_of('{"rules": NaN}', is_json=True)[0]


def test_several_flaws_are_all_reported() -> None:
    text = "rules:\n  - name: a\n    name: b\n  - by: x\n    by: y\n"
    assert [(m.line, m.column) for m in read(text).flaws] == [(3, 5), (5, 5)]


def test_json_text_escapes_are_read_as_json_reads_them() -> None:
    text = '{"rules": [{"name": "\\ud83d\\ude00 \\/ \\u00e9"}]}'
    assert json.loads(read(text).json)["rules"][0]["name"] == "\N{GRINNING FACE} / é"


def test_anchors_and_merges_may_be_used() -> None:
    text = """\
rules:
  - &base
    name: a
    by: user
    limit: &five 5/minute
  - <<: *base
    name: b
  - <<: [{by: ip}, *base]
    name: c
    limit: *five
"""
    rules = json.loads(read(text).json)["rules"]
    assert rules[1] == {"name": "b", "by": "user", "limit": "5/minute"}
    assert rules[2] == {"name": "c", "by": "ip", "limit": "5/minute"}


def test_a_merged_value_is_reported_where_it_was_written_and_an_alias_where_it_is_used() -> None:
    text = "rules:\n  - &base\n    by: nobody\n  - <<: *base\n    name: &n b\n  - name: *n\n"
    found = read(text)
    assert found.mistake(("rules", 1, "by"), "").line == 3
    assert found.mistake(("rules", 2, "name"), "").line == 6


def test_a_file_that_is_not_text_is_located(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes("rules: []\nx: é".encode() + b"\xff")
    with pytest.raises(RulesFileError) as caught:
        read_document(path)
    assert str(caught.value) == f"{path}:2:5: not UTF-8 text"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RulesFileError, match=r"gone\.yaml: cannot be read: No such file"):
        read_document(str(tmp_path / "gone.yaml"))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_bytes(b'\xef\xbb\xbf{"rules": []}')
    assert json.loads(read_document(path).json) == {"rules": []}


@pytest.mark.parametrize("source", ["rules: []", "rules: []\n", '{"rules": []}', {"rules": []}, [], ()])
def test_rules_come_as_text_or_data(source: document.RulesSource) -> None:
    assert json.loads(read_document(source).json) == {"rules": []}


def test_the_editors_schema_key_is_not_the_engines_business() -> None:
    assert json.loads(read('{"$schema": "x", "rules": []}').json) == {"rules": []}
    assert json.loads(read_document({"$schema": "x", "rules": []}).json) == {"rules": []}


def test_data_keeps_aware_times_and_names_what_is_not_data() -> None:
    until = datetime(2030, 1, 31, 12, tzinfo=UTC)
    kept = read_document([{"name": "a", "until": until}])
    assert json.loads(kept.json)["rules"][0]["until"] == "2030-01-31T12:00:00+00:00"
    strange = [{"name": {1, 2}, "limit": float("nan"), "until": datetime(2030, 1, 31), 3: "x", "user": 2**70}]
    with pytest.raises(RulesFileError) as caught:
        read_document(strange)  # type: ignore[arg-type]
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "rules[0].name",
        "rules[0].limit",
        "rules[0].until",
        "rules[0]",
        "rules[0].user",
    ]


def test_a_bulk_file_is_known_by_its_name() -> None:
    assert document.bulk_path("a.jsonl") == "a.jsonl"
    assert document.bulk_path(Path("a.jsonl")) == "a.jsonl"
    assert document.bulk_path("a.yaml") is None
    assert document.bulk_path("rules: x.jsonl") is None
    assert document.bulk_path([]) is None
