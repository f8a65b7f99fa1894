"""Rules as code: many files as one document, and the place of everything that is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.cli.control_errors import ControlRefused, FieldMistake
from headgate.cli.rules_source import bulk_file, read_sources
from headgate.errors import ConfigError

RULE = "  - name: {0}\n    by: user\n    limit: 5/minute\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    return tmp_path


def write(name: str, *rules: str, more: str = "") -> None:
    text = "rules:\n" + "".join(RULE.format(rule) for rule in rules) if rules else ""
    Path(name).write_text(text + more, encoding="utf-8")


def test_a_folder_is_read_in_the_order_of_its_names() -> None:
    write("rules/b.yaml", "second")
    write("rules/a.yml", "first")
    Path("rules/c.json").write_text('{"rules": [{"name": "third", "by": "user", "limit": "5/minute"}]}')
    for ignored in ("rules/README.md", "rules/.hidden.yaml", "rules/d.yaml.bak"):
        Path(ignored).write_text("nothing of ours")
    source = read_sources(["rules"])
    assert [rule["name"] for rule in source.body["rules"]] == ["first", "second", "third"]
    assert "tiers" not in source.body


def test_a_name_in_two_files_is_told_with_both_places() -> None:
    write("rules/a.yaml", "one", "two")
    write("rules/b.yaml", "three", "two")
    with pytest.raises(ConfigError) as caught:
        read_sources(["rules"])
    expected = "rules/b.yaml:5:5: rules[1]: `two` is also written in rules/a.yaml:5:5; keep one"
    assert str(caught.value) == expected


def test_an_override_in_two_files_is_told_with_both_places() -> None:
    write("rules/a.yaml", more="overrides:\n  - {user: 42, tier: pro}\n")
    write("rules/b.yaml", more='overrides:\n  - {user: "42", tier: free}\n')
    with pytest.raises(ConfigError, match=r"rules/b.yaml:2:5: .*`user 42` is also written in rules/a.yaml:2:5"):
        read_sources(["rules"])


def test_tiers_of_one_file_count_in_all() -> None:
    write("rules/tiers.yaml", more="tiers: [free, pro]\n")
    write("rules/vip.yaml", more="tiers: [vip]\noverrides:\n  - {user: 1, tier: pro}\n")
    assert read_sources(["rules"]).body["tiers"] == ["free", "pro", "vip"]
    write("rules/wrong.yaml", more="overrides:\n  - {user: 2, tier: por}\n")
    with pytest.raises(ConfigError, match=r"rules/wrong.yaml:2:"):
        read_sources(["rules"])


def test_every_mistake_of_every_file_is_told() -> None:
    write("rules/a.yaml", "one", more="    limits: 3\n")
    write("rules/b.yaml", more="rulez: []\n")
    write("rules/c.yaml", more="rules: [\n")
    with pytest.raises(ConfigError) as caught:
        read_sources(["rules"])
    told = [line.split(":")[0] for line in str(caught.value).splitlines()]
    assert {"rules/b.yaml", "rules/c.yaml"} <= set(told)
    for name in ("rules/b.yaml", "rules/c.yaml"):
        Path(name).unlink()
    with pytest.raises(ConfigError, match=r"rules/a.yaml:5:\d+: rules\[0\].limits"):
        read_sources(["rules"])


@pytest.mark.parametrize("sources", [["rules"], ["missing.yaml"], ["rules/a.yaml", "rules/../rules/a.yaml"]])
def test_what_cannot_be_meant_is_refused(sources: list[str]) -> None:
    if len(sources) == 2:
        write("rules/a.yaml", "one")
    with pytest.raises(ConfigError, match=r"holds no|cannot be read|named twice"):
        read_sources(sources)


def test_a_bulk_file_stands_alone() -> None:
    assert bulk_file(["big.jsonl"]) == "big.jsonl"
    assert bulk_file(["a.yaml", "b.yaml"]) is None
    with pytest.raises(ConfigError, match="applied alone"):
        bulk_file(["a.yaml", "big.jsonl"])


def test_what_the_control_plane_refuses_is_told_with_its_place() -> None:
    write("rules/a.yaml", "one")
    write("rules/b.yaml", "two", "three")
    mistakes = (
        FieldMistake("rules[2].limit", "too much"),
        FieldMistake("overrides[7]", "?"),
        FieldMistake("", "whole"),
    )
    located = read_sources(["rules"]).located(ControlRefused(422, "3 mistakes", mistakes))
    assert str(located).splitlines() == [
        "3 mistakes",
        "  rules/b.yaml:7:12: rules[1].limit: too much",
        "  overrides[7]: ?",
        "  whole",
    ]
