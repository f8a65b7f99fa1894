"""A rules file beside a control plane: whenever it changes, it is applied to the database, as
`headgate rules apply --prune` would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import headgate._core as _core
from headgate.control.change import Outcome
from headgate.control.plane import ControlPlane
from headgate.errors import HeadgateError, RulesFileError
from headgate.feed.entry import Kind
from headgate.limiter import Limiter
from headgate.model.document import BULK_SUFFIX, find_mistakes, read_document
from headgate.node.rules_from import FeedRules
from headgate.running.chores import Chore
from headgate.storage.sql import entries
from headgate.upkeep.rules_file import STARTER_FILE
from headgate.upkeep.watched_files import WatchedFiles


class AppliedFile:
    """`apply` once, then `look` now and then."""

    def __init__(self, plane: ControlPlane, path: str) -> None:
        self._plane = plane
        self.path = path
        self._watched = WatchedFiles(path)

    def apply(self) -> Outcome:
        """Raises HeadgateError naming every mistake; then nothing changed."""
        self._watched.remember()
        return apply_file(self._plane, self.path, prune=True, why=f"the rules file {self.path}")

    def look(self, server: _core.Server, log: Any, asked: bool) -> None:
        if not self._watched.changed() and not asked:
            return
        try:
            outcome = self.apply()
        # Whatever a file does to us, the node goes on answering by the old rules.
        except Exception as error:
            text = str(error) if isinstance(error, HeadgateError) else f"{self.path}: {type(error).__name__}: {error}"
            server.set_rules_error(text)
            log.error("rules refused; the old ones go on", error=text, file=self.path)
        else:
            server.set_rules_error(None)
            with self._plane.database.read() as tx:
                rules = entries.count(tx, Kind.RULE)
            log.info("rules reloaded", rules=rules, file=self.path, changed=outcome.changed, at=str(outcome.position))


class WatchedRules:
    """Rules of the embedded control plane, and the file that is applied to it when it changes."""

    def __init__(self, feed: FeedRules, file: AppliedFile | None, poll_s: float) -> None:
        self._feed = feed
        self._file = file
        self._poll_s = poll_s
        self.place = file.path if file is not None else feed.place

    def load(self, limiter: Limiter, log: Any) -> None:
        self._feed.load(limiter, log)

    def chores(self, limiter: Limiter, server: _core.Server, log: Any) -> Sequence[Chore]:  # noqa: ARG002
        file = self._file
        return [] if file is None else [Chore(lambda asked: file.look(server, log, asked), self._poll_s)]

    def stop(self) -> None:
        self._feed.stop()


def apply_starter(plane: ControlPlane) -> Outcome:
    return apply_file(plane, str(STARTER_FILE), prune=False, why="the starter rules")


def apply_file(plane: ControlPlane, path: str, *, prune: bool, why: str) -> Outcome:
    if path.endswith(BULK_SUFFIX):
        with open(path, "rb") as lines:
            return plane.changes.apply_lines(lines, prune=prune, by="headgate serve", why=why)
    _, mistakes = find_mistakes(path)
    if mistakes:
        raise RulesFileError(mistakes)
    document = json.loads(read_document(path).json)
    return plane.changes.apply_document(document, prune=prune, by="headgate serve", why=why)
