"""Telling people that long work goes on: a bar on a terminal, a line now and then elsewhere. Always on stderr, so that
what a verb prints can be piped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import typer

LINE_EVERY_S = 10.0


class Meter(Protocol):
    """How far the work is."""

    def advance(self, done: int) -> None: ...

    def say(self, text: str) -> None:
        """The next part of the work, whose length is not known."""
        ...


@contextlib.contextmanager
def working(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Work of which nobody knows how long it takes."""
    if quiet:
        yield
        return
    from rich.console import Console

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        typer.echo(f"{text} …", err=True)
        yield
        return
    with console.status(text):
        yield


@contextlib.contextmanager
def metered(text: str, total: int, *, quiet: bool = False) -> Iterator[Meter]:
    """Work on so many bytes."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if quiet:
        yield _Silence()
        return
    if not console.is_terminal:
        yield _Lines(text, total)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=False) as progress:
        task = progress.add_task(text, total=total)

        class Bar:
            def advance(self, done: int) -> None:
                progress.advance(task, done)

            def say(self, text: str) -> None:
                progress.update(task, description=text)
                # Neither total nor end: the bar pulses and the clock goes on, where both would stand still.
                progress.tasks[0].total = progress.tasks[0].finished_time = None

        yield Bar()


@contextlib.contextmanager
def counted(text: str, total: int, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Work on so many things; what is given is called with how many are done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(text, total=total)
        yield lambda done: progress.update(task, completed=done)


def measured(chunks: Iterable[bytes], meter: Meter) -> Iterator[bytes]:
    """The same chunks. Each is counted when the next is asked for: by then it was taken."""
    for chunk in chunks:
        yield chunk
        meter.advance(len(chunk))


class _Silence:
    def advance(self, done: int) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class _Lines:
    """For logs: the beginning, a line every few seconds, the parts that follow."""

    def __init__(self, text: str, total: int) -> None:
        self._text, self._total = text, total
        self._done = 0
        self._told_at = time.monotonic()
        typer.echo(f"{text}: {total:,} bytes", err=True)

    def advance(self, done: int) -> None:
        self._done += done
        if time.monotonic() - self._told_at >= LINE_EVERY_S:
            self._told_at = time.monotonic()
            typer.echo(f"{self._text}: {self._done:,} of {self._total:,} bytes", err=True)

    def say(self, text: str) -> None:
        typer.echo(f"{text} …", err=True)
