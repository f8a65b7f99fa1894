"""`make bench-peers`, in small: that it measures what it says. What peers do is shown by it, and not asserted here."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import report
from bench.figure import Effort, Figure, Unavailable
from bench.side_by_side import __main__ as command
from bench.side_by_side import table
from bench.side_by_side.behaviour import GREEDY_REQUESTS, Admitted, Trace, WallClock, burned, says_burned, trace
from bench.side_by_side.groups import GROUPS, Group
from bench.side_by_side.table import COLUMNS, Cell, Part, Row
from bench.side_by_side.work import OWN, SHARED, TIGHT_COUNT, Ask, Contestant
from tests.proxies.binaries import nginx

QUICK = Effort(quick=True)
BY_NAME = {group.name: group for group in GROUPS}


def ours(part: Part) -> list[Row]:
    return [row for row in part.rows if row.is_ours]


def assert_keeps_its_promises(row: Row) -> None:
    assert row.cells["burned"].words == "nothing"
    # On a busy machine fewer may fit into one second than come.
    assert 0 < (row.cells["worst_window"].number or 0) <= TIGHT_COUNT
    assert row.cells["requests_per_s"].number


def assert_measured_or_explained(part: Part) -> None:
    assert [
        (row.name, name) for row in part.rows for name in COLUMNS if not (row.cells[name].text() or row.cells[name].why)
    ] == []


# --- real contestants


def test_libraries_over_a_store_are_measured_in_every_column() -> None:
    part = command.run_group(BY_NAME["libraries-valkey"], QUICK)
    assert_measured_or_explained(part)
    assert {row.name.split()[0] for row in part.rows} >= {"**Headgate**", "limits"}
    [row] = ours(part)
    assert_keeps_its_promises(row)
    assert row.cells["store_calls"].number == pytest.approx(1, abs=0.05)
    assert row.cells["hanging"].words.startswith("admitted after")


def test_web_applications_in_memory_say_that_there_is_no_store() -> None:
    part = command.run_group(BY_NAME["web"], QUICK)
    assert_measured_or_explained(part)
    assert len(ours(part)) == 2
    for row in ours(part):
        assert_keeps_its_promises(row)
        assert "no store" in row.cells["hanging"].why


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the load generator is built with gcc")
def test_gateways_are_measured_before_the_same_application() -> None:
    part = command.run_group(BY_NAME["gateways"], QUICK)
    assert_measured_or_explained(part)
    assert len(ours(part)) == 2
    for row in ours(part):
        assert_keeps_its_promises(row)
    assert ("nginx" in part.left_out) == (nginx().binary is None)


def test_a_peer_that_cannot_be_had_is_left_out_with_the_reason() -> None:
    def none(*_: object) -> list[Contestant]:
        raise Unavailable("there is no such thing here")

    libraries = BY_NAME["libraries"]
    group = Group("some", "Some", "Of which one is missing.", (libraries.makings[0], ("it", none)))
    part = command.run_group(group, QUICK)
    assert len(part.rows) == 1
    assert "Left out: it, because there is no such thing here" in table.tables([part])


# --- what a refused request burned


def limiter(*, all_or_nothing: bool) -> Ask:
    """Two limits, the shared one first, as if by hand."""
    used: Counter[str] = Counter()

    def ask(_: str, caller: str) -> bool:
        fits = used["shared"] < SHARED
        own_fits = used[caller] < OWN
        if fits and (own_fits or not all_or_nothing):
            used["shared"] += 1
        if fits and own_fits:
            used[caller] += 1
        return fits and own_fits

    return ask


def test_limits_that_are_decided_together_burn_nothing() -> None:
    assert burned(limiter(all_or_nothing=True)) == 0
    assert says_burned(0, 1.0) == "nothing"


def test_hits_of_refused_requests_are_found() -> None:
    hits = burned(limiter(all_or_nothing=False))
    assert hits == GREEDY_REQUESTS - OWN
    assert says_burned(hits, None) == "the shared limit, 10 of 10 times"


def test_a_caller_who_is_starved_by_its_own_refusals_is_found() -> None:
    assert "10% of it is left" in says_burned(0, 0.1)


# --- the worst window


class HandClock(WallClock):
    """Moves when somebody sleeps."""

    def __init__(self) -> None:
        self._now_s = 1_000.25

    def now_s(self) -> float:
        return self._now_s

    def sleep_until(self, moment_s: float) -> None:
        self._now_s = max(self._now_s, moment_s)


def traced(began: Callable[[float], float], *, steadily: bool = False) -> Trace:
    """Of fixed windows that begin as is said."""
    used: Counter[float] = Counter()
    clock = HandClock()

    def ask(_: str, __: str) -> bool:
        window = began(clock.now_s())
        used[window] += 1
        return used[window] <= TIGHT_COUNT

    return trace(ask, "c", steadily=steadily, clock=clock)


def test_the_weak_moment_of_windows_of_the_clock_is_found() -> None:
    assert traced(lambda now_s: now_s // 1).worst() == 2 * TIGHT_COUNT


def test_the_weak_moment_of_windows_that_begin_with_the_first_request_is_found() -> None:
    first: list[float] = []

    def began(now: float) -> float:
        if not first or now - first[-1] >= 1:
            first.append(now)
        return first[-1]

    assert traced(began).worst() == 2 * TIGHT_COUNT - 1


def test_a_caller_who_never_stops_is_not_said_to_be_starved_by_fixed_windows() -> None:
    part = traced(lambda now_s: now_s // 1, steadily=True).kept_part()
    assert says_burned(0, part) == "nothing"


def test_only_what_was_surely_within_the_window_counts() -> None:
    found = [Admitted(0.0, 0.1), Admitted(0.9, 0.95), Admitted(0.95, 1.05)]
    assert Trace(found, None).worst() == 2


# --- the section


def part() -> Part:
    cells = {name: Cell(number=12.0) for name in COLUMNS} | {
        "hanging": Cell(why="Because."),
        "burned": Cell(words="nothing"),
    }
    return Part("Title", "About.", [Row("**Headgate**", True, cells)], {"other": "it is not here"})


def test_a_cell_without_a_figure_is_explained_below() -> None:
    text = table.tables([part()])
    assert "| **Headgate** | 12 | 12 | 12 | 12 | 12 | nothing | 12 | —¹ |" in text
    assert "¹ Because." in text
    assert "Left out: other, because it is not here" in text


def test_what_was_found_is_the_same_after_it_was_written_down() -> None:
    assert table.from_json(table.as_json([part()])) == [part()]


def test_the_section_is_replaced_and_kept_when_the_rest_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.setattr(report, "OUT", tmp_path)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results.json")
    report.write_results([Figure("b", "something", 1.0, "x")], {}, {"CPU": "one"}, 1.0, quick=False, partial=False)
    report.write_page()
    assert report.NO_PEERS in report.PAGE.read_text()
    section = table.section([part()], 3.0, "a machine")
    report.replace_section(report.PEERS, section)
    report.write_page()
    page = report.PAGE.read_text()
    assert report.section_of(page, report.PEERS) == section.strip()
    assert page.count("## The machine") == 1
    assert "| something | 1 x | — | — |" in page


def test_an_unknown_group_is_a_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["nothing"])
    assert "no group named nothing; there are libraries" in capsys.readouterr().err
