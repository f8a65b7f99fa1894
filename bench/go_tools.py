"""Peers written in Go, built once from the Go module proxy at a pinned version, each checked as the go tool does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.figure import Unavailable

# Beside the Python packages of the benchmarks: outside the sources, and gone with `make clean`.
FOLDER = Path(sys.prefix) / "go"
BUILD_S_MAX = 1800


def go_program(package: str, version: str) -> Path:
    """The last part of the package's path names the program."""
    folder = FOLDER / f"{package.replace('/', '-')}@{version}"
    program = folder / package.rpartition("/")[2]
    if not program.exists():
        _build(f"{package}@{version}", folder)
    return program


def _build(what: str, folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise Unavailable(f"{what} is built with go, which is not on the PATH")
    print(f"building {what}: some minutes, once", file=sys.stderr)
    environment = {**os.environ, "GOBIN": str(folder)}
    try:
        done = subprocess.run(
            ["nice", "-n", "10", go, "install", what],
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{what} was not built within {BUILD_S_MAX} s") from None
    if done.returncode != 0:
        raise Unavailable(f"{what} cannot be built: {_reason(done.stderr)}")


def _reason(said: str) -> str:
    """The end of the go tool's last line: before it are names already known and addresses."""
    parts = re.sub(r"reading https?://\S+: ", "", said.strip().splitlines()[-1]).split(": ")
    return ": ".join(part.strip() for part in parts[-3:])
