"""A group's contestants, column by column."""

from collections.abc import Callable, Sequence

from bench.figure import Effort
from bench.side_by_side import speed
from bench.side_by_side.behaviour import Trace, burned, hang, says_burned, trace
from bench.side_by_side.table import COLUMNS, Cell, Row
from bench.side_by_side.work import Ask, Contestant
from tests.servers.server import Server

SPEED_COLUMNS = ("requests_per_s", "cpu_us", "store_cpu_us", "p99_us", "store_calls")
TRACES = 2
HANG_S, QUICK_HANG_S = 12, 1
LIMITS_NOTHING = "It limits nothing: it is here to show what the application costs without a limiter."
NO_STORE = "It counts in its own memory: there is no store."


def measured(contestants: Sequence[Contestant], effort: Effort, store: Server) -> list[Row]:
    """The store hangs last: who has met that is not himself for a while."""
    speeds = speed.measure(contestants, effort, store)
    behaved = {one.name: _behaviour(one.ask, effort, store) for one in contestants if one.ask is not None}
    asks = {one.name: one.ask_hung or one.ask for one in contestants if one.ask is not None and one.has_store}
    said = hang(store, asks, effort.pick(HANG_S, QUICK_HANG_S)) if asks else {}
    return [
        Row(
            one.name,
            one.is_ours,
            _in_order(
                {
                    **_speed_cells(speeds[one.name], one),
                    **(behaved.get(one.name) or dict.fromkeys(("burned", "worst_window"), Cell(why=LIMITS_NOTHING))),
                    "hanging": Cell(words=said.get(one.name, ""), why="" if one.name in said else _why(one)),
                }
            ),
        )
        for one in contestants
    ]


def _why(contestant: Contestant) -> str:
    return LIMITS_NOTHING if contestant.ask is None else NO_STORE


def _in_order(cells: dict[str, Cell]) -> dict[str, Cell]:
    return {name: cells[name] for name in COLUMNS}


def _speed_cells(found: speed.Speeds, contestant: Contestant) -> dict[str, Cell]:
    if found.failed:
        return dict.fromkeys(SPEED_COLUMNS, Cell(why=found.failed))
    cells = {
        "requests_per_s": Cell(found.requests_per_s),
        "cpu_us": Cell(found.cpu_us),
        "p99_us": Cell(found.p99_us),
    }
    if not contestant.has_store:
        return cells | dict.fromkeys(("store_cpu_us", "store_calls"), Cell(why=_why(contestant)))
    return {**cells, "store_cpu_us": Cell(min(found.store_cpu_us)), "store_calls": Cell(found.store_calls)}


def _behaviour(ask: Ask, effort: Effort, store: Server) -> dict[str, Cell]:
    """Nobody finds another's counters. Steadily only in a full run: it takes two seconds of everybody."""
    store.command("FLUSHALL")
    traces: list[Trace] = []

    def worst() -> Cell:
        steadily = not effort.quick
        traces.extend(trace(ask, f"eager-{number}", steadily=steadily) for number in range(effort.pick(TRACES, 1)))
        return Cell(max(found.worst() for found in traces))

    def spent() -> Cell:
        kept = [found.kept_part() for found in traces]
        return Cell(words=says_burned(burned(ask), min((part for part in kept if part is not None), default=None)))

    return {"worst_window": _or_why(worst), "burned": _or_why(spent)}


def _or_why(measure: Callable[[], Cell]) -> Cell:
    """A peer's error is its own: the others go on."""
    try:
        return measure()
    except Exception as error:
        return Cell(why=speed.failure(error))
