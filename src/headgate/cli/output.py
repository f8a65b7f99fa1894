"""Tables for people. Everything shown is text someone else chose, so nothing is taken for markup."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# A pipe has no width; folding a table for it would only break the words someone greps for.
PIPE_COLUMNS = 200


def console() -> Console:
    made = Console(markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PIPE_COLUMNS
    return made


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        made.add_column(heading, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made
