"""What the documents name exists: headers, metrics, variables, flags, targets of make, events of the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import griffe
import pytest
import typer.main

from headgate.cli import app
from headgate.middleware import Passage
from headgate.middleware.flask import Headgate
from headgate.settings import ASKING_VARIABLES, CONFIG_VARIABLE, setting_items
from tests.docs.markdown import Page
from tests.docs.pages import DOCS, ROOT, WRITTEN
from tests.docs.test_cli_docs import EXISTING

PAGES = [*WRITTEN, Page(ROOT / "CONTRIBUTING.md")]
HEADER = re.compile(r'"(X-(?:RateLimit|Headgate)-[A-Za-z-]+|Retry-After|RateLimit(?:-[A-Za-z]+)?)"')
BYTES_OF_A_HEADER = re.compile(r'b"(www-authenticate): ')


def rust(folder: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.rs")))


def source(*folders: str) -> str:
    return "\n".join(
        path.read_text(encoding="utf-8") for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))
    )


def codes(page: Page) -> Iterator[str]:
    for section in page.sections:
        yield from re.findall(r"`([^`]+)`", "\n".join(section.prose))


def mentioned(pattern: str) -> list[tuple[str, str]]:
    """(page, word) for each word of this form in the prose or the examples."""
    return sorted(
        {
            (str(page.path.relative_to(ROOT)), word)
            for page in PAGES
            for word in re.findall(pattern, page.path.read_text(encoding="utf-8"))
        }
    )


def test_every_header_that_the_engine_or_a_node_can_send_is_documented_and_no_other() -> None:
    page = DOCS["headers"]
    rate = set(HEADER.findall(rust("crates/core/src")))
    sent = set(HEADER.findall(rust("crates/node/src/serve")))
    sent |= {name.title().replace("Www", "WWW") for name in BYTES_OF_A_HEADER.findall(rust("crates/node/src/serve"))}
    assert rate == set(page.section("Headers").codes())
    assert sent - rate == set(page.section("Headers of a node").codes())


def test_every_name_of_the_package_that_a_page_gives_exists() -> None:
    package = griffe.load("headgate", search_paths=[ROOT / "src"], allow_inspection=False)
    files = {f"headgate.{name}" for name in ("toml", "sock", "conf", "md", "hgs", "db", "db.secret")}
    # What examples call Flask's extension, and Django's requests their passage.
    members = {f"headgate.{name}" for kind in (Headgate, Passage) for name in dir(kind)}
    missing = []
    for page, name in mentioned(r"\bheadgate(?:\.\w+)+"):
        try:
            package[name.removeprefix("headgate.")]
        except KeyError:
            if name not in files and name not in members:
                missing.append((page, name))
    assert missing == []


def control_metrics() -> dict[str, str]:
    """Those of a control plane, each with its kind."""
    text = (ROOT / "src" / "headgate" / "control" / "api" / "metrics.py").read_text(encoding="utf-8")
    return dict(re.findall(r'_metric\(\s*"(\w+)",\s*"(\w+)"', text))


def test_every_metric_of_a_control_plane_is_documented_with_its_kind() -> None:
    rows = DOCS["api"].section("Health and metrics").rows()
    assert {row[0].strip("`"): row[1] for row in rows} == control_metrics()


def test_every_metric_that_a_page_names_exists() -> None:
    existing = set(DOCS["http"].section("Metrics").codes()) | {"headgate_limit"}  # A view's, for the throttle.
    existing |= set(DOCS["api"].section("Health and metrics").codes())
    existing |= set(DOCS["gateway"].section("Watching it").codes())  # Of a node with upstreams.
    existing |= {"headgate_backup"}  # What a backup's first line begins with.
    existing |= set(control_metrics())
    assert [(page, name) for page, name in mentioned(r"(?<!@)\bheadgate_[a-z_]+\b") if name not in existing] == []


def test_every_variable_that_a_page_names_exists() -> None:
    existing = {item.variable for item in setting_items()} | {CONFIG_VARIABLE, *ASKING_VARIABLES}
    assert [(page, name) for page, name in mentioned(r"\bHEADGATE_[A-Z0-9_]*[A-Z0-9]\b") if name not in existing] == []


def test_every_flag_that_the_prose_names_exists() -> None:
    commands = [*EXISTING.values(), typer.main.get_command(app)]
    existing = {flag for command in commands for item in command.params for flag in (*item.opts, *item.secondary_opts)}
    existing |= {"--help"}
    existing |= {item.flag for item in setting_items()}
    # Of `python -m bench` and `curl`.
    elsewhere = {"--write-docs", "--list", "--quick"}
    named = {
        (page.path.stem, code.split()[0].rstrip(",").partition("=")[0]) for page in WRITTEN for code in codes(page)
    }
    flags = {(page, flag) for page, flag in named if flag.startswith("--")}
    assert {(page, flag) for page, flag in flags if flag not in existing | elsewhere} == set()


def test_every_target_of_make_that_a_page_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    existing = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = mentioned(r"(?:`|\$ )make ([a-z-]+)")
    assert named
    assert [(page, target) for page, target in named if target not in existing] == []


@pytest.mark.parametrize("event", DOCS["operations"].section("Logs").codes())
def test_every_event_of_the_log_that_is_documented_is_one_that_the_code_logs(event: str) -> None:
    kind = event.removeprefix("store: ")
    if kind != event:
        assert f'"{kind.replace(" ", "_")}"' in rust("crates/node/src")
    else:
        assert f'"{event}"' in source("src/headgate")


def test_what_is_said_not_to_be_there_yet_is_not_there() -> None:
    """A sentence that promises something goes when the thing has come."""
    text = "\n".join(DOCS["cli"].section("The command line").prose)
    found = re.search(r"Not yet there: (.+)\.", text)
    if found:
        commands = {name.removeprefix("headgate ").split()[0] for name in EXISTING}
        assert not commands & set(re.findall(r"`(\w+)`", found[1]))


def test_no_page_says_of_what_exists_that_it_is_not_yet_available() -> None:
    """Only these are still to come; whoever builds one takes its line away here and there."""
    to_come = ("explain", "queue", "precision", "lease")
    stale = re.compile(r"[^.\n]*(?:[Nn]ot\W{1,4}yet(?:\W+available|\W+there|:)|does not \w+ \w+ yet)[^.]*", re.DOTALL)
    for page in [*WRITTEN, Page(ROOT / "CHANGELOG.md")]:
        prose = "\n".join("\n".join(section.prose) for section in page.sections)
        for sentence in stale.findall(prose):
            assert any(word in sentence for word in to_come), f"{page.path.name}: {sentence.strip()}"


def test_no_page_names_a_path_of_one_machine() -> None:
    wrong = re.compile(r"/(?:home|root|Users|work)/\w+")
    for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), Path(ROOT / "mkdocs.yml")]:
        assert not wrong.findall(path.read_text(encoding="utf-8")), path.name
