"""A hook of MkDocs: files outside docs/ that the pages link to are part of the site, and links find them there.

The pages are read on GitHub as well, where `../examples/nginx/README.md` is right. The site has docs/ at its root; here
such links, and those of the README, are turned into what is right there. No page knows of it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
DOCS = "docs/"
HOME = "README.md"
HOME_ON_SITE = "index.md"
MOUNTED_FILES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "GLOSSARY.md", "LICENSE")
MOUNTED_FOLDERS = ("adr", "examples")
# What programs leave behind when the examples are run in place.
LITTER = ("__pycache__", ".pyc", ".sqlite3", ".venv")

_LINK = re.compile(r"(\]\()([^)\s]+)(?=\))")
_FENCE = re.compile(r"^\s*```")
_ELSEWHERE = re.compile(r"^([a-z]+:|/|#)")


def mounted() -> list[str]:
    """Files outside docs/ that the site has, as paths from the repository's root."""
    found = [name for name in MOUNTED_FILES if (ROOT / name).is_file()]
    for folder in MOUNTED_FOLDERS:
        files = (path for path in sorted((ROOT / folder).rglob("*")) if path.is_file())
        found += [str(path.relative_to(ROOT)) for path in files if not any(part in str(path) for part in LITTER)]
    return found


def place_on_site(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path == HOME:
        return HOME_ON_SITE
    return path.removeprefix(DOCS)


def place_in_repository(page: str) -> str:
    """The file a page of the site was made from."""
    if page == HOME_ON_SITE:
        return HOME
    return page if (ROOT / page).exists() else DOCS + page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in mounted():
        files.append(File.generated(config, place_on_site(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_others: object) -> str:
    return rewritten(markdown, page.file.src_uri)


def rewritten(markdown: str, page: str) -> str:
    """The text of a page, its relative links made for the site."""
    lines: list[str] = []
    is_example = False
    for line in markdown.split("\n"):
        if _FENCE.match(line):
            is_example = not is_example
        lines.append(line if is_example else _LINK.sub(lambda link: link[1] + site_link(link[2], page), line))
    return "\n".join(lines)


def site_link(link: str, page: str) -> str:
    if _ELSEWHERE.match(link):
        return link
    path, mark, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place_in_repository(page)), path))
    if (ROOT / target).is_dir() and (ROOT / target / HOME).exists():
        target = f"{target}/{HOME}"
    if not (ROOT / target).exists():
        return link  # The strict build says so in its own words.
    return posixpath.relpath(place_on_site(target), posixpath.dirname(page) or ".") + mark + anchor
