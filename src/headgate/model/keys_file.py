"""The file of API keys as people and `headgate keys` change it: one entry is added or marked at a time, and whatever
else the file holds, comments too, stays as it is."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from headgate.errors import ConfigError, KeysFileError, Mistake
from headgate.model import nodes
from headgate.model.api_keys import parse_keys, read_keys_text
from headgate.model.document import BULK_SUFFIX

Entry = dict[str, Any]

_DRAFT_SUFFIX = ".new"


class KeysFile:
    """YAML, JSON, or JSON Lines, by the file's name."""

    def __init__(self, path: str) -> None:
        self.path = path

    def entries(self) -> list[Entry]:
        """Every entry as written; a file that is not there holds none."""
        return self._parse(self._read())

    def add(self, entry: Entry) -> None:
        """Raises ConfigError, and changes nothing, when the file cannot be added to."""
        with self._changing() as draft:
            text = self._read()
            before = self._parse(text)
            if any(known.get("id") == entry["id"] for known in before):
                raise ConfigError(f"{self.path}: there is a key with the id {entry['id']} already")
            draft.append(self._checked(self._with(text, entry), [*before, entry]))

    def mark(self, key_id: str, marks: Entry) -> None:
        """Add fields to one entry."""
        with self._changing() as draft:
            text = self._read()
            before = self._parse(text)
            nth = next((nth for nth, known in enumerate(before) if str(known.get("id")) == key_id), None)
            if nth is None:
                raise ConfigError(f"{self.path}: there is no key with the id {key_id}")
            after = [dict(known) for known in before]
            after[nth] |= marks
            draft.append(self._checked(self._marked(text, nth, marks, after), after))

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[str]]:
        """What is put into the list takes the file's place. The draft keeps two of us from changing it at once."""
        draft_path = self.path + _DRAFT_SUFFIX
        try:
            descriptor = os.open(draft_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        except FileExistsError:
            raise ConfigError(
                f"{draft_path} is there: someone else is changing the file, or was cut short; if so, remove it"
            ) from None
        try:
            draft: list[str] = []
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                yield draft
                file.write("".join(draft))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                os.chmod(draft_path, os.stat(self.path).st_mode & 0o777)
            os.replace(draft_path, self.path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft_path)
            raise

    def _read(self) -> str:
        return read_keys_text(self.path) if os.path.exists(self.path) else ""

    def _parse(self, text: str) -> list[Entry]:
        if self.path.endswith(BULK_SUFFIX):
            return [self._line(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        value = json.loads(parse_keys(text, self.path).json)
        keys = value.get("keys") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not (keys is None or isinstance(keys, list)):
            raise KeysFileError([Mistake(self.path, 1, 1, (), "expected a mapping with a list `keys:` at the top")])
        return [entry for entry in keys or [] if isinstance(entry, dict)]

    def _line(self, number: int, line: str) -> Entry:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise KeysFileError([Mistake(self.path, number, 1, (), "expected a JSON object")])
        return entry

    def _checked(self, text: str, expected: list[Entry]) -> str:
        """Text was changed, not data: that it says what was meant is looked at before it is written."""
        try:
            said = self._parse(text)
        except ConfigError:
            said = []
        if said != expected:
            raise ConfigError(
                f"{self.path}: is written in a way that cannot be changed here; write `keys:` last, one entry after "
                "the other as `- id: …` with its fields beneath"
            )
        return text

    def _with(self, text: str, entry: Entry) -> str:
        if self.path.endswith(BULK_SUFFIX):
            return _ended(text) + json.dumps(entry) + "\n"
        if self.path.endswith(".json"):
            return _dumped([*self._parse(text), entry])
        written = "".join(f"    {name}: {json.dumps(value)}\n" for name, value in entry.items())
        if not self._parse(text):
            text = text if "keys:" in text else _ended(text) + "keys:\n"
            return _ended(text.replace("keys: []", "keys:")) + "  -" + written[3:]
        return _ended(text) + _indented("  -" + written[3:], _list_column(text, self.path))

    def _marked(self, text: str, nth: int, marks: Entry, after: list[Entry]) -> str:
        if self.path.endswith(BULK_SUFFIX):
            return "".join(json.dumps(entry) + "\n" for entry in after)
        if self.path.endswith(".json"):
            return _dumped(after)
        node = _entry_nodes(text, self.path)[nth]
        if not isinstance(node, nodes.Mapping):
            return text
        lines = text.splitlines(keepends=True)
        first = min(entry.line for entry in node.entries.values())
        column = min(entry.column for entry in node.entries.values())
        lines[first - 1] = _ended(lines[first - 1])
        lines[first:first] = [f"{' ' * (column - 1)}{name}: {json.dumps(value)}\n" for name, value in marks.items()]
        return "".join(lines)


def _entry_nodes(text: str, name: str) -> list[nodes.Node]:
    root = parse_keys(text, name).root
    keys = root.entries.get("keys") if isinstance(root, nodes.Mapping) else None
    return keys.node.items if keys is not None and isinstance(keys.node, nodes.Sequence) else []


def _list_column(text: str, name: str) -> int:
    """How far the list's dashes are indented: two less than the entries."""
    return max(0, _entry_nodes(text, name)[0].column - 3)


def _indented(block: str, spaces: int) -> str:
    return "".join(" " * spaces + line[2:] for line in block.splitlines(keepends=True))


def _dumped(entries: list[Entry]) -> str:
    return json.dumps({"keys": entries}, indent=2) + "\n"


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
