"""As much of Markdown as the tests of the documents need: sections, tables, fenced examples, links."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

_HEADING = re.compile(r"#{1,6} +(.+?) *$")
_FENCE = re.compile(r'```(\w*)(?: title="([^"]*)")?$')
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CELL_END = re.compile(r"(?<!\\)\|")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


@dataclass
class Section:
    """What stands between one heading and the next."""

    title: str
    prose: list[str] = field(default_factory=list)

    def rows(self) -> list[list[str]]:
        """The cells of every table here, without headings."""
        rows: list[list[str]] = []
        for line, following in pairwise([*self.prose, ""]):
            is_heading = following.startswith("|---")
            if line.startswith("|") and not line.startswith("|---") and not is_heading:
                rows.append([cell.strip() for cell in _CELL_END.split(line)[1:-1]])
        return rows

    def codes(self, column: int = 0) -> list[str]:
        """Everything in backticks in one column of the tables here."""
        return [code for row in self.rows() for code in _CODE.findall(row[column])]

    def links(self) -> list[str]:
        return [link for line in self.prose for link in _LINK.findall(line)]


@dataclass(frozen=True)
class Example:
    """A fenced block, the line it begins on, and what stands over it: its own title, and the section's."""

    language: str
    text: str
    line: int
    title: str = ""
    section: str = ""


class Page:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.sections = [Section("")]
        self.examples: list[Example] = []
        language: str | None = None
        title = ""
        body: list[str] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if language is not None:
                if line == "```":
                    text = "\n".join(body) + "\n"
                    self.examples.append(Example(language, text, number - len(body), title, self.sections[-1].title))
                    language = None
                else:
                    body.append(line)
            elif fence := _FENCE.match(line):
                language, title, body = fence[1], fence[2] or "", []
            elif heading := _HEADING.match(line):
                self.sections.append(Section(heading[1]))
            else:
                self.sections[-1].prose.append(line)
        assert language is None, f"{path.name}: an example has no end"

    def section(self, title: str) -> Section:
        found = [section for section in self.sections if section.title == title]
        assert len(found) == 1, f"{self.path.name}: {len(found)} sections are called {title!r}"
        return found[0]

    def examples_in(self, *languages: str) -> list[Example]:
        return [example for example in self.examples if example.language in languages]

    def commands(self, name: str) -> list[str]:
        """The lines after `$` of the console examples that run this program, assignments before it included."""
        wanted = re.compile(rf"\$ ((?:[A-Z_]+=\S+ )*{name}\b.*)")
        lines = [line for example in self.examples_in("console") for line in example.text.splitlines()]
        return [found[1] for line in lines if (found := wanted.match(line))]

    def links(self) -> list[str]:
        return [link for section in self.sections for link in section.links()]

    def anchors(self) -> set[str]:
        """What headings are called in links."""
        titles = [section.title.lower() for section in self.sections]
        return {_NOT_IN_ANCHORS.sub("", title).replace(" ", "-") for title in titles}
