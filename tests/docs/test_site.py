"""The documentation site builds without a warning, fetches nothing, and holds together."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import headgate
import headgate.middleware
from tests.docs.pages import DOCS, ROOT
from tools.site.docstrings import listed
from tools.site.mounted import mounted, rewritten, site_link

BUILD_S_MAX = 600
# What a browser fetches by itself, by tag and attribute. Links a reader may follow are no such thing.
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
    ("link", "href"),
}


@dataclass
class Html(HTMLParser):
    """What a page of the site fetches, links to, and can be linked to by."""

    path: Path
    fetched: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.ids.add(value)
            elif (tag, name) in FETCHED:
                self.fetched.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does, once for all tests here."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    # A notice about the future of MkDocs, not about this site.
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    # Whoever would fetch something finds nobody there.
    environ |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:1")
    built = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=BUILD_S_MAX)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    return {path: Html(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed_there = set(re.findall(r"([\w./-]+)\.md\b", nav))
    assert set(DOCS) <= listed_there


def test_every_page_of_the_navigation_is_built(site: Path, pages: dict[Path, Html]) -> None:
    built = {path.relative_to(site).with_suffix("").as_posix() for path in pages}
    assert {"index", "CHANGELOG", "GLOSSARY", "examples/nginx/index", *DOCS} <= built


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Html]) -> None:
    for page in pages.values():
        assert [url for url in page.fetched if urlsplit(url).netloc] == [], page.path.name
    sheets = sorted(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        text = sheet.read_text(encoding="utf-8")
        assert not re.findall(r"url\(\s*[\"']?(?:https?:)?//", text), sheet.name
        assert "@import" not in text, sheet.name


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: dict[Path, Html]) -> None:
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # Its links are from the root of a server; where that is nobody knows here.
        for link in [*page.links, *page.fetched]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            anchor = unquote(parts.fragment)
            there = pages[target].ids if target in pages else set()
            if not target.exists() or (anchor and anchor not in there and not anchor.startswith("__")):
                broken.append((path.name, link))
    assert broken == []


@pytest.mark.parametrize(
    "kind",
    [headgate.Limiter, headgate.Decision, headgate.LimitResult, headgate.Reservation, headgate.Identity],
    ids=lambda kind: kind.__name__,
)
def test_the_reference_made_from_the_code_has_every_member(kind: type, site: Path, pages: dict[Path, Html]) -> None:
    ids = pages[site / "reference" / "headgate.html"].ids
    members = {f"headgate.{kind.__name__}.{name}" for name in dir(kind) if not name.startswith("_")}
    assert members <= ids


def test_the_reference_made_from_the_code_has_what_the_package_offers(site: Path, pages: dict[Path, Html]) -> None:
    ids = {name for path, page in pages.items() if path.parent.name == "reference" for name in page.ids}
    offered = {name for name in headgate.__all__ if name not in ("__version__", "errors")}
    missing = {name for name in offered if not {f"headgate.{name}", f"headgate.errors.{name}"} & ids}
    assert missing == set()


def test_the_reference_made_from_the_code_has_every_door_of_the_middleware(pages: dict[Path, Html]) -> None:
    ids = {name for path, page in pages.items() if path.parent.name == "reference" for name in page.ids}
    doors = re.findall(r"`(\w+)`", (headgate.middleware.__doc__ or "").splitlines()[0])
    assert len(doors) >= 4
    built = [door for door in doors if (ROOT / f"src/headgate/middleware/{door}.py").exists()]
    # The names of Starlette's door are those of FastAPI's.
    told = [door for door in built if any(name.startswith(f"headgate.middleware.{door}.") for name in ids)]
    assert [door for door in built if door not in (*told, "fastapi")] == []


def test_links_that_leave_docs_find_the_same_file_on_the_site() -> None:
    assert site_link("../examples/nginx/README.md", "sidecar.md") == "examples/nginx/README.md"
    assert site_link("../examples", "sidecar.md") == "examples/README.md"
    assert site_link("../README.md#your-first-rule", "python.md") == "index.md#your-first-rule"
    assert site_link("docs/rules.md#match", "index.md") == "rules.md#match"
    assert site_link("../../docs/sidecar.md", "examples/nginx/README.md") == "../../sidecar.md"
    assert site_link("../python.md", "reference/headgate.md") == "../python.md"
    assert "examples/systemd/headgate-node.service" in mounted()


def test_other_links_and_examples_stay_as_they_are() -> None:
    for link in ("https://example.com/a.md", "#refund", "nowhere.md", "algorithms.md#refund"):
        assert site_link(link, "rules.md") == link
    text = "[a](../README.md)\n```\n[b](../README.md)\n```\n[c](../README.md)"
    assert rewritten(text, "rules.md") == "[a](index.md)\n```\n[b](../README.md)\n```\n[c](index.md)"


def test_columns_of_a_docstring_become_a_list() -> None:
    text = "Decides.\n\nrules    a path\nstore    where counters live:\n         here or there\na, b     both\n\nMore."
    assert listed(text) == (
        "Decides.\n\n- `rules`: a path\n- `store`: where counters live:\n    here or there\n- `a`, `b`: both\n\nMore."
    )
