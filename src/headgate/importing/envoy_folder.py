"""Which files of a folder are envoyproxy/ratelimit's: its loader reads all there is, in folders below as well."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from headgate.errors import ConfigError

SUFFIXES = (".yaml", ".yml")
# Of files and folders together, so that a wrong path is not walked for hours.
FILES_MAX = 10_000
# What a root of its runtime has below it, where files do not lie in the folder itself.
CONFIG_FOLDER = "config"
_NAMES = " or ".join(f"*{suffix}" for suffix in SUFFIXES)

Named = str | os.PathLike[str]


def envoy_files(paths: Iterable[Named]) -> list[Path]:
    """The files that are meant. Of a folder those it holds, or those that `config` below it holds; hidden ones are
    not. Raises ConfigError where a folder has none."""
    files: list[Path] = []
    for path in map(Path, paths):
        inside = [file for file in _below(path) if file.suffix in SUFFIXES] if path.is_dir() else [path]
        if not inside:
            raise ConfigError(f"{path}: holds no {_NAMES}, and neither does what is below it")
        files += inside
    return files


def passed_over(paths: Iterable[Named]) -> list[tuple[Path, str]]:
    """Files in folders that are not read, and why: with one of them limits may be gone."""
    others = [file for path in map(Path, paths) if path.is_dir() for file in _below(path)]
    why = f"not read: its name is no {_NAMES}; there any name is"
    return [(file, why) for file in others if file.suffix not in SUFFIXES]


def _below(folder: Path) -> list[Path]:
    below = folder / CONFIG_FOLDER
    is_root = below.is_dir() and not any(file.suffix in SUFFIXES for file in _walked(folder, is_deep=False))
    return sorted(_walked(below if is_root else folder, is_deep=True))


def _walked(folder: Path, *, is_deep: bool) -> Iterator[Path]:
    seen = 0
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        folders[:] = [name for name in folders if is_deep and not name.startswith(".")]
        seen += len(folders) + len(names)
        if seen > FILES_MAX:
            raise ConfigError(f"{folder}: more than {FILES_MAX:,} files")
        yield from filter(_is_meant, (Path(place, name) for name in names))


def _is_meant(file: Path) -> bool:
    """A link that leads nowhere is meant: left out, its limits would be gone without a word."""
    return not file.name.startswith(".") and (file.is_file() or not file.exists())


def _unreadable(error: OSError) -> NoReturn:
    raise ConfigError(f"{error.filename}: cannot be read: {error.strerror or error}") from None
