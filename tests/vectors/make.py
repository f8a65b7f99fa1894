"""Writes the vectors: `python -m tests.vectors.make`. The same code gives the same files, byte for byte.

Answers come from the exact model. Before it is believed, it must agree with every answer worked out by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from tests.model.limits import MINUTE_US, MONTH_US, SECOND_US, Limit
from tests.vectors.by_hand import EXAMPLES
from tests.vectors.format import Player, Step, Vector, first_limit

HERE = Path(__file__).parent
EPOCH_US = 1_760_000_000 * SECOND_US
STEPS = 32


class Writer:
    """Builds one vector, always knowing what the model thinks: times are aimed at its edges."""

    def __init__(self, name: str, limit: Limit, seed: int) -> None:
        self.random = Random(seed)
        self.player = Player(limit)
        self.now_us = EPOCH_US + self.random.randrange(MINUTE_US)
        self.vector: Vector = {
            "name": name,
            "algorithm": limit.algorithm,
            "count": limit.count,
            "window_us": limit.window_us,
            "burst": limit.burst,
            "start_us": self.now_us,
            "steps": [],
        }

    @property
    def limit(self) -> Limit:
        return self.player.counter.limit

    def pick(self, among: Sequence[int]) -> int:
        return among[self.random.randrange(len(among))]

    def add(self, step: Step) -> None:
        step["at_us"] = self.now_us
        self.vector["steps"].append(step)
        step["expect"] = self.player.play(step)

    def ask(self, cost: int, *, peek: bool = False) -> None:
        self.add({"at_us": self.now_us, "op": "peek" if peek else "check", "cost": cost})

    def wait(self, us: int) -> None:
        self.now_us += us

    def wait_until_near_an_edge(self, cost: int) -> None:
        """To a moment where an answer is about to change, or just did; sometimes anywhere."""
        window_us, counter = self.limit.window_us, self.player.counter
        retry_us = counter.wait_us(min(cost, self.limit.capacity), self.now_us) or 0
        edges = [
            retry_us,
            counter.reset_after_us(self.now_us),
            window_us,
            window_us - self.now_us % window_us,
        ]
        kind = self.random.randrange(8)
        if kind < 3:
            self.wait(max(0, self.pick(edges) + self.pick([-1, 0, 0, 1])))
        elif kind < 6:
            self.wait(self.random.randrange(max(1, 2 * window_us // max(8, min(self.limit.capacity, 64)))))
        elif kind == 6:
            self.wait(self.random.randrange(window_us))


def costs(capacity: int, random: Random) -> Iterator[int]:
    """Mostly small, sometimes as large as fits, now and then a peek or one too many."""
    while True:
        kind = random.randrange(12)
        if kind < 5:
            yield 1
        elif kind < 9:
            yield 1 + random.randrange(max(1, capacity // 3))
        elif kind == 9:
            yield capacity
        else:
            yield 0 if kind == 10 else capacity + 1


def wandering(writer: Writer) -> None:
    for cost, _ in zip(costs(writer.limit.capacity, writer.random), range(STEPS), strict=False):
        writer.wait_until_near_an_edge(cost)
        writer.ask(cost, peek=writer.random.randrange(8) == 0)


def steady(writer: Writer) -> None:
    """A client somewhat above its rate: groups fill, die and are refilled."""
    interval_us = max(1, writer.limit.window_us // writer.limit.count)
    for _ in range(3 * STEPS):
        writer.ask(1)
        writer.wait(interval_us * 3 // 4)


def lumps(writer: Writer) -> None:
    """Costs around a group's size, so that some join the newest group and some do not."""
    size = writer.limit.group_size
    for _ in range(2 * STEPS):
        writer.ask(1 + writer.random.randrange(2 * size))
        writer.wait(writer.random.randrange(1 + writer.limit.window_us // 48))


def pressed(writer: Writer) -> None:
    """Near the capacity all the time, where a bucket's numbers are largest and any rounding would show."""
    capacity = writer.limit.capacity
    interval_us = max(1, writer.limit.window_us // writer.limit.count)
    for number in range(3 * STEPS):
        writer.wait(writer.random.randrange(interval_us))
        writer.ask(1 + writer.random.randrange(max(1, capacity // 10) if number < STEPS else 8))


def refunding(writer: Writer) -> None:
    """Only the newest charge is returned, each at its own moment: the rest is tried by hand."""
    for cost, _ in zip(costs(writer.limit.capacity, writer.random), range(STEPS), strict=False):
        writer.wait_until_near_an_edge(cost)
        writer.wait(1)
        writer.ask(cost)
        if writer.player.charges[-1] is None:
            continue
        of = len(writer.vector["steps"]) - 1
        writer.wait(writer.pick([0, 1, writer.limit.window_us // 3, writer.limit.window_us]))
        kind = writer.random.randrange(4)
        if kind == 0:
            writer.add({"at_us": 0, "op": "refund", "of": of})
        elif kind == 1:
            writer.add({"at_us": 0, "op": "refund", "of": of, "amount": 1 + writer.random.randrange(cost)})
        elif kind == 2:
            writer.add({"at_us": 0, "op": "commit", "of": of, "actual": writer.random.randrange(2 * cost + 1)})
        writer.ask(0, peek=True)


def _doubled(limit: Limit) -> int:
    """The exact log takes no limit above 10,000."""
    return min(10_000, 2 * limit.count) if limit.algorithm == "sliding_log" else 2 * limit.count


def changing(writer: Writer) -> None:
    """The count goes up and down while the window stays."""
    first = writer.limit
    for cost, _ in zip(costs(first.capacity, writer.random), range(STEPS), strict=False):
        writer.wait_until_near_an_edge(cost)
        step: Step = {"at_us": 0, "op": "check", "cost": cost}
        if writer.random.randrange(4) == 0:
            step["count"] = writer.pick([first.count, _doubled(first), max(1, first.count // 3)])
            if first.burst is not None:
                step["burst"] = writer.pick([first.burst, first.burst * 3, max(1, first.burst // 2)])
        writer.add(step)


def rewindowed(writer: Writer) -> None:
    """The window itself changes, between lengths that divide each other."""
    first = writer.limit
    for cost, _ in zip(costs(first.capacity, writer.random), range(STEPS), strict=False):
        writer.wait_until_near_an_edge(cost)
        step: Step = {"at_us": 0, "op": "check", "cost": cost}
        if writer.random.randrange(4) == 0:
            step["window_us"] = first.window_us * writer.pick([1, 2, 10])
        writer.add(step)


Story = Callable[[Writer], None]

LIMITS: dict[str, list[Limit]] = {
    "sliding_window": [
        Limit("sliding_window", 1, SECOND_US),
        Limit("sliding_window", 5, MINUTE_US),
        Limit("sliding_window", 32, SECOND_US),
        Limit("sliding_window", 33, 10 * SECOND_US),
        Limit("sliding_window", 100, MINUTE_US),
        Limit("sliding_window", 10_000, 60 * MINUTE_US),
        Limit("sliding_window", 1_000_000, MONTH_US),
        Limit("sliding_window", 1_000_000, SECOND_US),
    ],
    "gcra": [
        Limit("gcra", 1, SECOND_US, 1),
        Limit("gcra", 5, MINUTE_US, 2),
        Limit("gcra", 7, 3 * SECOND_US, 20),
        Limit("gcra", 100, SECOND_US, 200),
        Limit("gcra", 30_000, SECOND_US, 10),
        Limit("gcra", 700_000, SECOND_US, 1_000),
        Limit("gcra", 10_000, 60 * MINUTE_US),
        Limit("gcra", 40_000, 24 * 60 * MINUTE_US),
        Limit("gcra", 1_700, MONTH_US),
        Limit("gcra", 1_000_000, MONTH_US),
    ],
    "fixed_window": [
        Limit("fixed_window", 1, SECOND_US),
        Limit("fixed_window", 10, MINUTE_US),
        Limit("fixed_window", 10_000, 60 * MINUTE_US),
        Limit("fixed_window", 1_000_000, MONTH_US),
    ],
    "sliding_window_counter": [
        Limit("sliding_window_counter", 1, SECOND_US),
        Limit("sliding_window_counter", 10, MINUTE_US),
        Limit("sliding_window_counter", 97, 7 * SECOND_US),
        Limit("sliding_window_counter", 10_000, 60 * MINUTE_US),
        Limit("sliding_window_counter", 1_000_000, MONTH_US),
    ],
    "sliding_log": [
        Limit("sliding_log", 1, SECOND_US),
        Limit("sliding_log", 5, MINUTE_US),
        Limit("sliding_log", 100, MINUTE_US),
        Limit("sliding_log", 10_000, MONTH_US),
    ],
}


def stories(limit: Limit) -> list[tuple[str, Story]]:
    told: list[tuple[str, Story]] = [
        ("wandering over its edges", wandering),
        ("refunds", refunding),
        ("limit up and down", changing),
    ]
    if limit.window_us % 1_000 == 0 and limit.count <= 10_000:
        told.append(("window changed", rewindowed))
    if limit.algorithm == "sliding_window":
        told.append(("mixed costs", lumps))
    if limit.algorithm == "gcra" and limit.window_us > 60 * MINUTE_US:
        told.append(("pressed against its capacity", pressed))
    if limit.count in (33, 97, 100):
        told.append(("somewhat above its rate", steady))
    return told


def made(algorithm: str) -> list[Vector]:
    vectors = []
    for number, limit in enumerate(LIMITS[algorithm]):
        shape = f"{limit.count} per {limit.window_us / SECOND_US:g} s"
        shape += "" if limit.burst is None else f" burst {limit.burst}"
        for position, (title, story) in enumerate(stories(limit)):
            writer = Writer(f"{algorithm} {shape}: {title}", limit, seed=1_000 * number + position)
            story(writer)
            vectors.append(writer.vector)
    return vectors


def by_hand() -> list[Vector]:
    for vector in EXAMPLES:
        player = Player(first_limit(vector))
        for number, step in enumerate(vector["steps"]):
            answer = player.play(step)
            if answer != step.get("expect"):
                raise SystemExit(f"{vector['name']}, step {number}: by hand {step.get('expect')}, model {answer}")
    return EXAMPLES


def text(vectors: list[Vector]) -> str:
    """JSON with one step a line, so that a change reads well in a diff."""
    out = []
    for vector in vectors:
        head = {key: value for key, value in vector.items() if key != "steps"}
        steps = ",\n".join("  " + json.dumps(step) for step in vector["steps"])
        out.append(json.dumps(head)[:-1] + ', "steps": [\n' + steps + "\n]}")
    return "[\n" + ",\n".join(out) + "\n]\n"


def files() -> dict[str, str]:
    """Every file's name and text."""
    written = {"by_hand.json": text(by_hand())}
    for algorithm in LIMITS:
        written[f"{algorithm}.json"] = text(made(algorithm))
    return written


def main() -> None:
    for name, content in files().items():
        (HERE / name).write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
