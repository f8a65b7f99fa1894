"""Two writers, step by step, in an order that a test chooses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

TIMEOUT_S = 60


class Gates:
    """Where a writer stops until it is let through; and who let it through learns where it stopped next."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at: str | None = None
        self._tickets = 0

    def stop_at(self, gate: str) -> None:
        with self._changed:
            self._at = gate
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._tickets > 0, TIMEOUT_S), f"nobody opened {gate}"
            self._tickets -= 1
            self._at = None

    def let_through(self) -> None:
        with self._changed:
            self._tickets += 1
            self._changed.notify_all()

    def wait(self) -> str:
        """Until it stands at a gate, and nobody has let it through: which."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._at is not None and not self._tickets, TIMEOUT_S), "it is stuck"
            assert self._at is not None
            return self._at


class Writer:
    """Makes changes one after the other: stands `before` each, and `inside` its transaction, until told to go on."""

    def __init__(self, changes: Sequence[Callable[[Callable[[], None]], None]]) -> None:
        self.gates = Gates()
        self.error: BaseException | None = None
        self.is_waiting_for_lock = False
        self._changes = changes
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            for make in self._changes:
                self.gates.stop_at("before")
                make(lambda: self.gates.stop_at("inside"))
        except BaseException as error:
            self.error = error
        self.gates.stop_at("done")


def interleave(writers: Sequence[Writer], order: Sequence[int]) -> None:
    """Lets them through in that order as far as possible, then in any, until all are done."""
    choices = iter(order)
    while True:
        at = {number: writer.gates.wait() for number, writer in enumerate(writers) if not writer.is_waiting_for_lock}
        open_to = [number for number, gate in at.items() if gate != "done"]
        if not open_to:
            break
        number = open_to[next(choices, 0) % len(open_to)]
        writer = writers[number]
        is_locked = "inside" in at.values()
        writer.gates.let_through()
        if at[number] == "before" and is_locked:
            writer.is_waiting_for_lock = True
        elif at[number] == "inside":
            # It gives the lock back: whoever waits for it gets inside.
            _one_gets_in([other for other in writers if other.is_waiting_for_lock])
    for writer in writers:
        writer.gates.let_through()
        writer.join()


def _one_gets_in(waiting: Sequence[Writer]) -> None:
    assert len(waiting) <= 1, "made for two writers"
    for writer in waiting:
        writer.gates.wait()
        writer.is_waiting_for_lock = False
