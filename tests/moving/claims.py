"""What the pages in docs/moving claim: the same requests, sent to two programs, are answered so.

A section of such a page has a block for each side, titled with its name, and a table of requests with a column each:

| requests | slowapi | Headgate |
|---|---|---|
| 6 × `GET /items` from 192.0.2.1 | 5 × 200, 429 | 5 × 200, 429 |

Rows are played in order. `answers` in place of a request stands for the program's own variable of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.docs.markdown import Example, Page

FOLDER = Path(__file__).parent.parent.parent / "docs" / "moving"
OURS = "headgate"
ANSWERS = "answers"
USUAL_CLIENT = "192.0.2.1"
# Where a block says something else than the program: `title="headgate settings"`.
SETTINGS = "settings"
# Pages about files that are imported, not about programs: `tests/importing` holds them to what they say.
IMPORTED = ("envoy-ratelimit", "kong", "limitador")

_REQUESTS = re.compile(
    r"(?:(?P<times>\d+) × )?`(?P<method>[A-Z]+) (?P<path>/\S*)`"
    r"(?: from (?P<client>[\d.]+))?(?: as (?P<user>\w+))?(?: with `(?P<header>[^`]+)`)?(?: sending `(?P<form>[^`]+)`)?"
)
_ANSWER = re.compile(r"(?:(\d+) × )?(\w+)")


@dataclass(frozen=True)
class Requests:
    """The same request, several times."""

    method: str
    path: str
    times: int
    client: str = USUAL_CLIENT
    user: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    written: str
    answers: dict[str, list[str]]

    @property
    def requests(self) -> Requests:
        found = _REQUESTS.fullmatch(self.written)
        assert found, f"not a request: {self.written}"
        return Requests(
            method=found["method"],
            path=found["path"],
            times=int(found["times"] or 1),
            client=found["client"] or USUAL_CLIENT,
            user=found["user"],
            headers=_pairs(found["header"], ":"),
            form=_pairs(found["form"], "="),
        )


@dataclass(frozen=True)
class Claim:
    """A section: two programs and what becomes of the requests."""

    page: str
    section: str
    programs: dict[str, Example]
    settings: dict[str, Example]
    rows: list[Row]

    @property
    def sides(self) -> list[str]:
        return list(self.programs)

    def __str__(self) -> str:
        return f"{self.page}-{self.section}"


def page(name: str) -> Page:
    return Page(FOLDER / f"{name}.md")


def names() -> list[str]:
    """Pages that show programs side by side."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.stem not in ("index", *IMPORTED))


def claims(name: str) -> Iterator[Claim]:
    """In the order of the page."""
    read = page(name)
    for section in read.sections:
        blocks = {block.title: block for block in read.examples_in("python") if block.section == section.title}
        if not blocks:
            continue
        programs = {side: blocks[side] for side in (name, OURS) if side in blocks}
        settings = {side: blocks[f"{side} {SETTINGS}"] for side in programs if f"{side} {SETTINGS}" in blocks}
        unknown = blocks.keys() - {example.title for example in (*programs.values(), *settings.values())}
        assert not unknown, f"{name}.md: nobody runs the block titled {sorted(unknown)[0]!r} in {section.title!r}"
        rows = [Row(row[0], _answers(programs, row[1:])) for row in section.rows()]
        yield Claim(name, section.title, programs, settings, rows)


def run(example: Example, path: Path, **given: Any) -> dict[str, Any]:
    """The program's variables."""
    variables: dict[str, Any] = {"__name__": f"moving_{example.line}_{example.title}", **given}
    # Blank lines before it, so that a failure names the line of the page.
    exec(compile("\n" * (example.line - 1) + example.text, str(path), "exec"), variables)  # The pages are our own.
    return variables


def told(variables: dict[str, Any]) -> list[str]:
    return [str(answer) for answer in variables[ANSWERS]]


def _answers(sides: dict[str, Example], cells: list[str]) -> dict[str, list[str]]:
    assert len(cells) == len(sides), f"a column for each of {', '.join(sides)}: {cells}"
    return {side: _spelt_out(cell) for side, cell in zip(sides, cells, strict=True)}


def _spelt_out(cell: str) -> list[str]:
    """`5 × 200, 429` as the six it stands for."""
    answers: list[str] = []
    for part in cell.split(", "):
        found = _ANSWER.fullmatch(part)
        assert found, f"not an answer: {cell}"
        answers += [found[2]] * int(found[1] or 1)
    return answers


def _pairs(text: str | None, between: str) -> dict[str, str]:
    if text is None:
        return {}
    name, _, value = text.partition(between)
    return {name: value.strip()}
