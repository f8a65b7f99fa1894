"""API keys as files hold them, made ready for the engine: YAML, JSON, or JSON Lines for millions.

The engine knows what a key is; this module knows the text, and says where in it a mistake is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import headgate._core as _core
from headgate.errors import KeysFileError, Mistake
from headgate.model import nodes
from headgate.model.document import BULK_SUFFIX, Document, read_nodes
from headgate.model.json_reader import read_json
from headgate.model.plain_data import plain_data

KeysSource = str | os.PathLike[str] | Sequence[Mapping[str, Any]]

FILE_BYTES_MAX = nodes.TEXT_BYTES_MAX


def load_api_keys(source: KeysSource, secret: bytes) -> _core.ApiKeys:
    """Raises KeysFileError listing every mistake, and ValueError for a secret that is too weak."""
    if not isinstance(source, str | os.PathLike):
        return _from_data(source, secret)
    path = os.fspath(source)
    if path.endswith(BULK_SUFFIX):
        return _from_lines(path, secret)
    return _from_document(parse_keys(read_keys_text(path), path), secret)


def read_keys_text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise KeysFileError([_whole(path, f"cannot be read: {error.strerror or error}")]) from None
    if len(raw) > FILE_BYTES_MAX:
        large = (
            f"larger than {FILE_BYTES_MAX // 2**20} MiB; give so many keys one a line, in a file named *{BULK_SUFFIX}"
        )
        raise KeysFileError([_whole(path, large)])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise KeysFileError([_whole(path, "not UTF-8 text")]) from None


def parse_keys(text: str, name: str) -> Document:
    """A document of keys with the place of everything in it; an empty text holds none."""
    if all(not line.strip() or line.startswith("#") for line in text.splitlines()):
        return Document(name, '{"keys":[]}', 0, None)
    root, flaws = read_json(text, name) if name.endswith(".json") else read_nodes(text, name)
    if root is None or flaws:
        raise KeysFileError(flaws)
    value = nodes.to_value(root)
    return Document(name, json.dumps(value, allow_nan=False, separators=(",", ":")), 0, root)


def _from_document(document: Document, secret: bytes) -> _core.ApiKeys:
    try:
        return _core.ApiKeys.from_document(secret, document.json)
    except _core.RulesError as error:
        raise KeysFileError(document.mistakes(error.errors)) from None


def _from_lines(path: str, secret: bytes) -> _core.ApiKeys:
    try:
        return _core.ApiKeys.from_file(secret, path)
    except _core.RulesError as error:
        raise KeysFileError([_line_mistake(path, at, message) for at, message in error.errors]) from None
    except OSError as error:
        raise KeysFileError([_whole(path, f"cannot be read: {error.strerror or error}")]) from None


def _from_data(source: Sequence[Mapping[str, Any]], secret: bytes) -> _core.ApiKeys:
    value, flaws = plain_data({"keys": source})
    if flaws:
        raise KeysFileError(flaws)
    return _from_document(Document(None, json.dumps(value), 0, None), secret)


def _line_mistake(path: str, at: tuple[str | int, ...], message: str) -> Mistake:
    line = at[0] + 1 if at and isinstance(at[0], int) else None
    return Mistake(path, line, None if line is None else 1, (), message)


def _whole(path: str, message: str) -> Mistake:
    return Mistake(path, None, None, (), message)
