"""A control plane of its own that applies a large document, for tests that kill it.

python -m tests.control.writer_process URL FILE          says `staged`, `merging` and `done` on its way
"""

from __future__ import annotations

import sys

from headgate.control.changes import Changes
from headgate.storage.sql import Database


def main(url: str, path: str) -> None:
    changes = Changes(Database(url))
    print("ready", flush=True)
    with open(path, "rb") as file:
        changes.apply_lines(file, prune=True, by="writer", progress=lambda count: print(count, flush=True))
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
