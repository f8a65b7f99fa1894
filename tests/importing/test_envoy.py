"""What is said of envoyproxy/ratelimit's files beside the rules: mistakes, differences, what cannot be expressed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from headgate import _core
from headgate.cli.app import app
from headgate.errors import ConfigError, FileError
from headgate.importing.envoy import DIFFERS, DIFFERS_SHADOW, read_envoy
from tests.importing.envoy_node import imported, serving

LIMIT = "rate_limit: {unit: minute, requests_per_unit: 5}"


def rules(folder: Path, *descriptors: str) -> list[dict[str, Any]]:
    found = imported(folder, written(*descriptors))
    assert _core.validate_rules(json.dumps(found.document)) == []
    listed: list[dict[str, Any]] = found.document["rules"]
    return listed


def written(*descriptors: str) -> str:
    return "domain: d\ndescriptors:\n" + "".join(f"  - {{{one}}}\n" for one in descriptors)


def refused(folder: Path, *files: str) -> list[str]:
    with pytest.raises(FileError) as raised:
        imported(folder, *files)
    return [str(mistake).removeprefix(f"{folder}/") for mistake in raised.value.mistakes]


def notes(folder: Path, *files: str) -> list[tuple[str, str, str]]:
    found = imported(folder, *files).notes
    everywhere = (*DIFFERS, DIFFERS_SHADOW)
    return [(n.level, n.where.removeprefix(f"{folder}/"), n.what) for n in found if n.what not in everywhere]


def test_names_are_readable_and_stable(tmp_path: Path) -> None:
    nested = f"key: a, value: b, descriptors: [{{key: c, {LIMIT}}}, {{key: c, value: x/*, {LIMIT}}}]"
    assert [rule["name"] for rule in rules(tmp_path, nested, f"key: z, {LIMIT}")] == ["d/a=b/c", "d/a=b/c=x/*", "d/z"]


def test_names_that_would_be_too_long_or_the_same_are_told_apart(tmp_path: Path) -> None:
    long = "v" * 200
    found = [
        rule["name"] for rule in rules(tmp_path, f"key: a, value: {long}1, {LIMIT}", f"key: a, value: {long}2, {LIMIT}")
    ]
    assert len(set(found)) == 2
    assert all(len(name) <= 128 and name.startswith("d/a=vvv") for name in found)
    same = [rule["name"] for rule in rules(tmp_path, f"key: a, value: b, {LIMIT}", f"key: a=b, {LIMIT}")]
    assert same[0] == "d/a=b"
    assert same[1].startswith("d/a=b~")


def test_names_of_two_domains_are_told_apart(tmp_path: Path) -> None:
    nested = f"domain: a\ndescriptors: [{{key: b, descriptors: [{{key: c, {LIMIT}}}]}}]"
    found = imported(tmp_path, nested, f"domain: a/b\ndescriptors: [{{key: c, {LIMIT}}}]").document
    assert _core.validate_rules(json.dumps(found)) == []
    first, second = [rule["name"] for rule in found["rules"]]
    assert (first, second.startswith("a/b/c~")) == ("a/b/c", True)


def test_a_reserved_name_is_not_taken(tmp_path: Path) -> None:
    found = imported(tmp_path, f"domain: 'block:x'\ndescriptors: [{{key: a, {LIMIT}}}]")
    assert [rule["name"] for rule in found.document["rules"]] == ["envoy/block:x/a"]


@pytest.mark.parametrize("unit", ["second", "minute", "hour", "day", "week", "month", "year", "MINUTE"])
def test_every_unit_is_a_fixed_window(tmp_path: Path, unit: str) -> None:
    limit = f"rate_limit: {{unit: {unit}, requests_per_unit: 4294967295}}"
    [rule] = rules(tmp_path, f"key: a, {limit}")
    assert (rule["limit"], rule["algorithm"]) == (f"4294967295/{unit.lower()}", "fixed_window")
    with serving(imported(tmp_path, written(f"key: a, {limit}")), "d") as node:
        assert node.ask("a=1").statuses[0].unit == unit.upper()


@pytest.mark.parametrize("value", ["true", "True", "no", "00123", "0x10", "-5", "2020-01-01"])
def test_a_value_is_the_text_that_stands_there(tmp_path: Path, value: str) -> None:
    [rule] = rules(tmp_path, f"key: a, value: {value}, {LIMIT}")
    assert rule["match"]["descriptor_exact"]["entries"] == [{"key": "a", "value": value}]


def test_windows_are_aligned_to_the_unit(tmp_path: Path) -> None:
    with serving(imported(tmp_path, written(f"key: a, {LIMIT}")), "d") as node:
        node.clock.advance(60 - node.clock.now() % 60 + 50)
        answer = node.ask("a=1", hits=5)
        assert answer.statuses[0].reset_s == pytest.approx(10.0)
        node.clock.advance(9.0)
        assert node.ask("a=1").code == "OVER_LIMIT"
        node.clock.advance(1.0)
        assert node.ask("a=1").code == "OK"


def test_without_a_limit_and_without_more_below_a_descriptor_passes(tmp_path: Path) -> None:
    file = written(f"key: a, {LIMIT}", "key: a, value: friend")
    with serving(imported(tmp_path, file), "d") as node:
        assert node.ask("a=friend", hits=6).code == "OK"
        assert node.ask("a=other", hits=6).code == "OVER_LIMIT"


def test_a_limit_of_nothing_can_be_replaced_and_be_in_shadow_mode(tmp_path: Path) -> None:
    none = "unit: minute, requests_per_unit: 0"
    file = written(
        f"key: banned, rate_limit: {{name: banned_limit, {none}}}",
        "key: pardon, rate_limit: {replaces: [{name: banned_limit}], unit: minute, requests_per_unit: 2}",
        f"key: shadow, shadow_mode: true, rate_limit: {{{none}}}",
        "key: free, rate_limit: {unlimited: true, replaces: [{name: banned_limit}]}",
    )
    with serving(imported(tmp_path, file), "d") as node:
        assert node.ask("banned=1").code == "OVER_LIMIT"
        assert node.admitted("banned=1", "pardon=1", of=4) == 2
        assert node.ask("banned=1", "free=1").code == "OK"
        assert node.ask("shadow=1").code == "OK"
    assert notes(tmp_path, file) == [
        ("differs", "0.yaml:5:5", "a limit of 0 that never refuses: the descriptor passes, and nothing is counted")
    ]


def test_facts_with_names_of_ours_are_plain_entries(tmp_path: Path) -> None:
    """`user`, `path` and addresses mean something to other rules; here they are looked up as they were written."""
    file = written(
        f"key: path, value: //a/../b, {LIMIT}",
        f"key: remote_address, value: '::ffff:10.0.0.1', {LIMIT}",
        f"key: user, descriptors: [{{key: method, value: get, {LIMIT}}}]",
    )
    with serving(imported(tmp_path, file), "d") as node:
        for call in ("path=//a/../b", "remote_address=::ffff:10.0.0.1", "user=7,method=get"):
            assert node.ask(call, hits=6).code == "OVER_LIMIT", call
        for call in ("path=/b", "remote_address=10.0.0.1", "user=7,method=GET", "method=get,user=7"):
            assert node.ask(call, hits=6).code == "OK", call


def test_what_no_other_door_can_meet_is_met_by_none(tmp_path: Path) -> None:
    engine = _core.Engine()
    engine.load_rules(json.dumps(imported(tmp_path, written(f"key: user, {LIMIT}")).document))
    decision = engine.check(user="7", descriptors={"domain": "d", "user": "7"}, cost=6)
    assert (decision.allowed, decision.path) == (True, "no_rule")


def test_the_differences_are_said_once(tmp_path: Path) -> None:
    plain = imported(tmp_path, written(f"key: a, {LIMIT}"), f"domain: e\ndescriptors: [{{key: a, {LIMIT}}}]")
    assert [(note.level, note.where, note.what) for note in plain.notes] == [
        ("differs", str(tmp_path), words) for words in DIFFERS
    ]
    shadow = imported(tmp_path, written(f"key: a, shadow_mode: true, {LIMIT}"))
    assert [note.what for note in shadow.notes] == [*DIFFERS, DIFFERS_SHADOW]


NOTED = {
    "detailed_metric": (
        f"key: a, detailed_metric: true, {LIMIT}",
        (
            "cannot",
            "`detailed_metric`: metrics here are labelled by rule, never by a request's values; the limit is the same",
        ),
    ),
    "value_to_metric": (
        f"key: a, value_to_metric: yes, {LIMIT}",
        (
            "cannot",
            "`value_to_metric`: metrics here are labelled by rule, never by a request's values; the limit is the same",
        ),
    ),
    "quota_mode": (
        f"key: a, quota_mode: true, {LIMIT}",
        (
            "differs",
            "`quota_mode` is shadow mode here: it counts and never refuses, but no metadata tells that it is spent",
        ),
    ),
    "replaces nobody": (
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: nobody}]}",
        ("note", "replaces `nobody`, and no limit of this domain is called that"),
    ),
    "nothing a unit": (
        "key: a, rate_limit: {unit: day}",
        ("note", "no `requests_per_unit` is none at all: every request is refused, as it is there"),
    ),
    "passed over": (
        "key: a, rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}",
        ("note", "`shadow_mode` has no meaning here, and is passed over there as well"),
    ),
}


@pytest.mark.parametrize(("descriptor", "expected"), NOTED.values(), ids=NOTED)
def test_what_differs_is_noted_with_its_place(tmp_path: Path, descriptor: str, expected: tuple[str, str]) -> None:
    [(level, where, what)] = notes(tmp_path, written(descriptor))
    assert (level, what) == expected
    assert where.startswith("0.yaml:3:")


def test_a_beginning_that_another_covers_is_left_out(tmp_path: Path) -> None:
    file = written(f"key: a, value: b*, {LIMIT}", f"key: a, value: bc*, {LIMIT}", f"key: a, value: c*, {LIMIT}")
    found = imported(tmp_path, file)
    assert [rule["name"] for rule in found.document["rules"]] == ["d/a=b*", "d/a=c*"]
    [(level, where, what)] = notes(tmp_path, file)
    assert (level, where) == ("note", "0.yaml:4:5")
    assert what == "never met, left out: `a_b*` above it takes all that this would"


def test_a_longer_beginning_above_a_shorter_one_is_met(tmp_path: Path) -> None:
    file = written(
        "key: a, value: bc*, rate_limit: {unit: day, requests_per_unit: 1}",
        "key: a, value: b*, rate_limit: {unit: day, requests_per_unit: 2}",
    )
    with serving(imported(tmp_path, file), "d") as node:
        assert (node.admitted("a=bcd", of=3), node.admitted("a=bd", of=3)) == (1, 2)


def test_one_domain_in_two_files_is_one(tmp_path: Path) -> None:
    files = (written(f"key: a, {LIMIT}"), written(f"key: b, {LIMIT}"))
    assert [rule["name"] for rule in imported(tmp_path, *files).document["rules"]] == ["d/a", "d/b"]
    assert notes(tmp_path, *files) == [("note", "1.yaml:1:1", "`d` is in another file too: both are taken together")]
    assert refused(tmp_path, files[0], files[0]) == [
        "1.yaml:3:5: `a` is here already: key and value, joined by `_`, tell descriptors apart"
    ]


WRONG = {
    "no domain": ("descriptors: []", "0.yaml:1:1: needs a `domain`"),
    "an empty domain": ('domain: ""', "0.yaml:1:1: needs a `domain`"),
    "a list": ("- domain: d", "0.yaml:1:1: the file must be a mapping"),
    "rules of ours": (
        "rules: []",
        "0.yaml:1:1: this is a file of Headgate's own rules, not of envoyproxy/ratelimit; name the file, "
        "not its folder",
    ),
    "no key": (written(LIMIT), "0.yaml:3:5: a descriptor needs a `key`"),
    "twice": (
        written("key: a, value: b", "key: a_b"),
        "0.yaml:4:5: `a_b` is here already: key and value, joined by `_`, tell descriptors apart",
    ),
    "an unknown key": (
        written("key: a, ratelimit: {}"),
        "0.yaml:3:14: `ratelimit` is not known here; expected one of key, value, rate_limit, descriptors, shadow_mode, "
        "quota_mode, detailed_metric, value_to_metric, share_threshold",
    ),
    "an unknown unit": (
        written("key: a, rate_limit: {unit: fortnight, requests_per_unit: 1}"),
        "0.yaml:3:27: `unit` must be one of second, minute, hour, day, week, month, year",
    ),
    "no unit": (
        written("key: a, rate_limit: {requests_per_unit: 1}"),
        "0.yaml:3:26: `unit` must be one of second, minute, hour, day, week, month, year",
    ),
    "unlimited with a unit": (
        written("key: a, rate_limit: {unlimited: true, unit: day}"),
        "0.yaml:3:44: what is `unlimited` has no `unit`",
    ),
    "less than nothing": (
        written("key: a, rate_limit: {unit: day, requests_per_unit: -1}"),
        "0.yaml:3:57: `requests_per_unit` must be at least 0",
    ),
    "too much": (
        written("key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}"),
        "0.yaml:3:38: `requests_per_unit` must be at most 4,294,967,295",
    ),
    "replaces nothing": (
        written("key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: ''}]}"),
        "0.yaml:3:71: `replaces` needs the `name` of a limit",
    ),
    "replaces itself": (
        written("key: a, rate_limit: {name: n, unit: day, requests_per_unit: 1, replaces: [{name: n}]}"),
        "0.yaml:3:80: a limit does not replace itself",
    ),
    "shared without a beginning": (
        written(f"key: a, value: b, share_threshold: true, {LIMIT}"),
        "0.yaml:3:24: `share_threshold` needs a `value` that ends with `*`",
    ),
    "not a flag": (written(f"key: a, shadow_mode: maybe, {LIMIT}"), "0.yaml:3:27: `shadow_mode` must be true or false"),
    "a control character": (
        written(f'key: "a\\x07", {LIMIT}'),
        "0.yaml:3:6: `key` must not hold control characters",
    ),
    "too long": (written(f"key: {'a' * 1025}, {LIMIT}"), "0.yaml:3:6: `key` must be at most 1,024 bytes long"),
}


@pytest.mark.parametrize(("file", "expected"), WRONG.values(), ids=WRONG)
def test_mistakes_are_named_with_their_place(tmp_path: Path, file: str, expected: str) -> None:
    assert refused(tmp_path, file) == [expected]


def test_the_mistakes_of_all_files_are_told_together(tmp_path: Path) -> None:
    found = refused(tmp_path, "domain: [", "descriptors: []", written("key: a, nonsense: 1"))
    assert [line.partition(":")[0] for line in found] == ["0.yaml", "1.yaml", "2.yaml"]


def test_a_file_nested_past_all_measure_is_refused(tmp_path: Path) -> None:
    deep = "domain: d\ndescriptors: " + "[{key: a, descriptors: " * 40 + "[]" + "}]" * 40
    [mistake] = refused(tmp_path, deep)
    assert "nested deeper than" in mistake


def names_in(folder: Path) -> list[str]:
    return [rule["name"] for rule in read_envoy([folder]).document["rules"]]


def test_only_files_that_are_meant_are_read(tmp_path: Path) -> None:
    (tmp_path / "config" / "team").mkdir(parents=True)
    (tmp_path / "config" / "team" / "a.yaml").write_text(written(f"key: deep, {LIMIT}"))
    (tmp_path / "config" / "..data").mkdir()
    (tmp_path / "config" / "..data" / "a.yaml").write_text("neither: this")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.yaml").write_text("nor: this")
    assert names_in(tmp_path) == names_in(tmp_path / "config") == ["d/deep"]
    (tmp_path / "config" / "b.yml").write_text(written(f"key: here, {LIMIT}"))
    (tmp_path / "config" / ".hidden.yaml").write_text("neither: this")
    (tmp_path / "config" / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "config" / "pipe.yaml")
    assert names_in(tmp_path) == ["d/here", "d/deep"]
    assert names_in(tmp_path / "config" / "b.yml") == ["d/here"]


def test_a_file_that_is_read_there_and_not_here_is_told(tmp_path: Path) -> None:
    (tmp_path / "edge").write_text(written(f"key: a, {LIMIT}"))
    told = ("cannot", "edge", "not read: its name is no *.yaml or *.yml; there any name is")
    assert notes(tmp_path, written(f"key: a, {LIMIT}")) == [told]


def test_a_link_that_leads_nowhere_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "1.yaml").symlink_to("gone.yaml")
    assert refused(tmp_path, written(f"key: a, {LIMIT}")) == ["1.yaml: cannot be read: No such file or directory"]


def test_a_folder_without_files_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no \*.yaml or \*.yml, and neither does what is below it"):
        read_envoy([tmp_path])


def test_the_command_prints_rules_and_says_what_it_cannot_express(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(written(f"key: a, detailed_metric: true, {LIMIT}"))
    done = CliRunner().invoke(app, ["rules", "import", "--from", "envoy", str(tmp_path)])
    assert done.exit_code == 0
    assert yaml.safe_load(done.stdout) == imported(tmp_path).document
    assert f"{tmp_path}/a.yaml:3:14: `detailed_metric`" in done.stderr
    assert DIFFERS[0] in done.stderr
    strict = CliRunner().invoke(app, ["rules", "import", "--from", "envoy", "--strict", str(tmp_path)])
    assert strict.exit_code == 1
