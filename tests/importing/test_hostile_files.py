"""Files nobody should have written: each is refused at once, with what is wrong and where, never with a traceback."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from headgate.errors import ConfigError, FileError, Mistake
from headgate.importing import kong, kong_places
from headgate.importing.kong import read_kong
from headgate.importing.limitador import read_limitador
from headgate.model import find_mistakes
from headgate.model.nodes import TEXT_BYTES_MAX
from tests.importing.deciding import Reader

READERS = [read_limitador, read_kong]
WORDS = """
    plugins services routes consumers consumer_groups name rate-limiting config minute limit_by paths /a /a/b ~x
    route service consumer groups namespace max_value seconds conditions variables ns 60 0 -1 null true 1.5 x=='1'
    _format_version 3.0 username descriptors[0].a
"""


def refused(read: Reader, folder: Path, content: str | bytes) -> list[str]:
    """Every mistake that is told, without the folder."""
    path = folder / "theirs.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileError) as caught:
        read([path])
    return [str(mistake).removeprefix(f"{folder}/") for mistake in caught.value.mistakes]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"- namespace: \xff\xfe\n", "theirs.yaml:1:14: not UTF-8 text"),
        ("", "theirs.yaml:1:1: the document is empty"),
        ("# nothing\n", "theirs.yaml:1:1: the document is empty"),
        ("a: [", "theirs.yaml:2:1: not YAML"),
        ("a: 1\na: 2\n", "theirs.yaml:2:1: `a` is written twice in one mapping (first on line 1); keep one"),
        ("a: 1\n---\nb: 1\n", "theirs.yaml:2:1: one document a file"),
        ("a: !!python/object:os.system x\n", "theirs.yaml:1:4: the tag"),
        ("a: \x07\n", "theirs.yaml:1:4: the character"),
        ("[" * 100 + "]" * 100, "theirs.yaml:1:33: nested deeper than 32 levels"),
        (BOMB, "theirs.yaml:7:16: the document holds more than 2,000,000 values"),
        ("a: &x [*x]\n", "theirs.yaml:1:8: the alias *x stands inside what it names"),
    ],
)
def test_what_is_no_readable_document_is_refused_with_its_place(
    tmp_path: Path, read: Reader, content: str | bytes, told: str
) -> None:
    assert refused(read, tmp_path, content)[0].startswith(told)


@pytest.mark.parametrize("read", READERS)
def test_a_file_that_is_too_large_absent_or_a_folder_is_refused(tmp_path: Path, read: Reader) -> None:
    large = refused(read, tmp_path, b" " * (TEXT_BYTES_MAX + 1))
    assert large == ["theirs.yaml: larger than 16 MiB; split it into several files"]
    for path, told in ((tmp_path / "absent.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(FileError, match=f"cannot be read: {told}"):
            read([path])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("just text", ["theirs.yaml:1:1: the file of limits must be a list"]),
        ("a: 1", ["theirs.yaml:1:1: the file of limits must be a list"]),
        ("- 5\n- [x]", ["theirs.yaml:1:3: a limit must be a mapping", "theirs.yaml:2:3: a limit must be a mapping"]),
        ("- {}", ["theirs.yaml:1:3: a limit needs `namespace`, `max_value`, `seconds`"]),
        (
            "- {namespace: [a], max_value: many, seconds: 0}",
            [
                "theirs.yaml:1:15: `namespace` must be text",
                "theirs.yaml:1:31: `max_value` must be a whole number",
                "theirs.yaml:1:46: `seconds` must be at least 1",
            ],
        ),
        (
            "- {namespace: a, max_value: -1, seconds: 1.5, conditions: x, variables: [{a: 1}, null]}",
            [
                "theirs.yaml:1:29: `max_value` must be at least 0",
                "theirs.yaml:1:42: `seconds` must be a whole number",
                "theirs.yaml:1:59: `conditions` must be a list",
                "theirs.yaml:1:74: each of `variables` must be text",
                "theirs.yaml:1:82: each of `variables` must be text",
            ],
        ),
    ],
)
def test_limits_of_the_wrong_kind_are_all_told(tmp_path: Path, text: str, told: list[str]) -> None:
    assert refused(read_limitador, tmp_path, text) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("just text", ["theirs.yaml:1:1: Kong's declarative file must be a mapping"]),
        (
            "rules: []",
            [
                "theirs.yaml:1:1: this is no declarative file of Kong: it has none of _format_version, services, "
                "routes, plugins, consumers, consumer_groups"
            ],
        ),
        ("_format_version: new", ['theirs.yaml:1:18: `_format_version` must be a version such as "3.0"']),
        ("plugins: {}", ["theirs.yaml:1:10: `plugins` must be a list"]),
        ("plugins: [5]", ["theirs.yaml:1:11: each of `plugins` must be a mapping"]),
        ("plugins: [{config: {}}]", ["theirs.yaml:1:11: a plugin needs a `name`"]),
        ("consumers: [{tags: []}]", ["theirs.yaml:1:13: a consumer needs a `username`"]),
        (
            "routes: [{paths: [api, {}], methods: [G T]}, {methods: GET}]",
            [
                "theirs.yaml:1:24: each of `paths` must be text",
                "theirs.yaml:1:39: each of `methods` must be a method such as GET",
                "theirs.yaml:1:19: the path `api` must begin with `/`",
                "theirs.yaml:1:56: `methods` must be a list",
            ],
        ),
        (
            f"consumers: [{{username: {'x' * 2_000}}}]",
            ["theirs.yaml:1:13: its name cannot be used: a text in a rule is 1 to 1,024 bytes long"],
        ),
        (
            "plugins: [{name: rate-limiting}]",
            ["theirs.yaml:1:11: needs at least one of second, minute, hour, day, month, year"],
        ),
        (
            "plugins: [{name: rate-limiting, service: [x], config: {minute: 1}}]",
            ["theirs.yaml:1:42: `service` must be a name or an id"],
        ),
        (
            "plugins: [{name: rate-limiting, config: {minute: a, limit_by: moon, error_code: x}}]",
            [
                "theirs.yaml:1:50: `minute` must be a whole number",
                "theirs.yaml:1:63: `limit_by: moon` is none of consumer, credential, ip, service, path, "
                "consumer-group, header",
                "theirs.yaml:1:81: `error_code` must be a whole number",
            ],
        ),
        (
            "plugins: [{name: rate-limiting, config: {minute: 1, limit_by: path}}]",
            ["theirs.yaml:1:63: `limit_by: path` needs a plain `path`"],
        ),
        (
            "plugins: [{name: rate-limiting, config: {minute: 1, limit_by: header}}]",
            ["theirs.yaml:1:41: counting by header needs a `header_name`"],
        ),
        (
            "plugins: [{name: rate-limiting, _config: gone}]",
            [
                "theirs.yaml:1:11: `_config: gone` names nothing in `_plugin_configs`",
                "theirs.yaml:1:11: needs at least one of second, minute, hour, day, month, year",
            ],
        ),
        (
            "plugins: [{name: rate-limiting-advanced, config: {limit: [1, 2], window_size: [60]}}]",
            ["theirs.yaml:1:50: needs `limit` and `window_size`, lists of the same length"],
        ),
    ],
)
def test_plugins_of_the_wrong_kind_are_all_told(tmp_path: Path, text: str, told: list[str]) -> None:
    assert refused(read_kong, tmp_path, text) == told


def test_two_instances_for_the_same_are_refused(tmp_path: Path) -> None:
    plugin = "{name: rate-limiting, config: {minute: 1}}"
    (told,) = refused(read_kong, tmp_path, f"plugins:\n- {plugin}\n- {plugin}\n")
    assert told.startswith("theirs.yaml:3:3: ")
    assert told.endswith("theirs.yaml:2:3 is for the same; Kong has one instance of a plugin for each")


@pytest.mark.parametrize("read", READERS)
def test_a_file_that_is_damaged_anywhere_is_imported_or_refused_and_nothing_else(tmp_path: Path, read: Reader) -> None:
    """Words of real files, put together anyhow."""
    words = WORDS.split()
    pick = random.Random(7)

    def anything(depth: int) -> str:
        kind = pick.random()
        if depth == 0 or kind < 0.4:
            return f'"{pick.choice(words)}"' if pick.random() < 0.3 else pick.choice(words)
        inner = [anything(depth - 1) for _ in range(pick.randrange(5))]
        if kind < 0.7:
            return f"[{', '.join(inner)}]"
        return (
            "{" + ", ".join(f"{word}: {value}" for word, value in zip(pick.sample(words, 5), inner, strict=False)) + "}"
        )

    path = tmp_path / "theirs.yaml"
    told: list[Mistake] = []
    for _ in range(1_000):
        path.write_text("{" + ", ".join(f"{word}: {anything(4)}" for word in pick.sample(words[:5], 3)) + "}")
        with contextlib.suppress(FileError):
            assert not find_mistakes(read([path]).document)[1], path.read_text()
        try:
            read([path])
        except FileError as error:
            told += error.mistakes
    assert told
    assert all(mistake.line is not None for mistake in told)


def test_more_routes_in_one_place_than_can_be_told_apart_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kong_places, "PAIRS_MAX", 5)
    routes = ", ".join(f"{{name: r{n}, paths: [/a]}}" for n in range(4))
    path = tmp_path / "theirs.yaml"
    path.write_text(f"routes: [{routes}]")
    with pytest.raises(ConfigError, match="more than 5 pairs of routes share requests; import fewer at a time"):
        read_kong([path])


def test_more_rules_than_anybody_reads_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kong, "RULES_MAX", 5)
    routes = ", ".join(
        f"{{name: r{n}, paths: [/a{n}], plugins: [{{name: rate-limiting, config: {{minute: 1}}}}]}}" for n in range(6)
    )
    path = tmp_path / "theirs.yaml"
    path.write_text(f"routes: [{routes}]")
    with pytest.raises(ConfigError, match="more than 5 rules"):
        read_kong([path])
