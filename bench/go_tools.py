"""Peers written in Go, built once from the Go module proxy at a pinned version, each checked as the go tool does."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Unavailable

# Beside the Python packages of the benchmarks: outside the sources, and gone with `make clean`.
FOLDER = Path(sys.prefix) / "go"
BUILD_S_MAX = 1800


@dataclass(frozen=True)
class GoProgram:
    """`package` is where in its module the program lies; its last part names the program."""

    module: str
    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.module}/{self.package}@{self.version}"

    def path(self) -> Path:
        """Built first where it is not there yet."""
        folder = FOLDER / str(self).replace("/", "-")
        program = folder / self.package.rpartition("/")[2]
        if not program.exists():
            self._build(program)
        return program

    def _build(self, program: Path) -> None:
        """In the module's own folder, with the versions its authors locked. `go install` would do the same, but wants a
        list of all versions besides, which not every proxy gives."""
        go = shutil.which("go")
        if go is None:
            raise Unavailable(f"{self} is built with go, which is not on the PATH")
        print(f"building {self}: some minutes, once", file=sys.stderr)
        fetched = self._run([go, "mod", "download", "-json", f"{self.module}@{self.version}"], Path(sys.prefix))
        source = json.loads(fetched)["Dir"]
        self._run([go, "build", "-mod=readonly", "-o", str(program), f"./{self.package}"], Path(source))

    def _run(self, command: list[str], folder: Path) -> str:
        try:
            done = subprocess.run(
                ["nice", "-n", "10", *command],
                cwd=folder,
                env=os.environ,
                capture_output=True,
                text=True,
                timeout=BUILD_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{self} was not built within {BUILD_S_MAX} s") from None
        if done.returncode != 0:
            raise Unavailable(f"{self} cannot be built: {_reason(done.stderr or done.stdout)}")
        return done.stdout


def _reason(said: str) -> str:
    """The end of what the go tool says last: before it are names already known and addresses."""
    lines = [line.strip().strip(',"') for line in said.splitlines() if line.strip(" {}\t")]
    parts = re.sub(r"reading https?://\S+: ", "", lines[-1] if lines else "no reason given").split(": ")
    return ": ".join(part.strip() for part in parts[-3:])
