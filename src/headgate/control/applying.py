"""The one way a change is made: lock, look, judge, write.

Every verb is a plan: given the locked database it says how entries shall be. What holds for all of them is here:
nobody's change is lost, the engine would take it, tiers are known, and nothing is written when nothing changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headgate.control.change import ABSENT, PRESENT, Expect, Outcome, Wanted, count
from headgate.control.contests import find_contests
from headgate.control.entry_body import EVERY_RULE, Mistakes, clean, with_id
from headgate.control.errors import Exists, Invalid, Moved, NotThere, Stale
from headgate.control.mirror import FarBehind, Mirror, mistakes_in
from headgate.control.moments import Clock, now_utc
from headgate.control.tier_use import check_tiers
from headgate.errors import Path
from headgate.feed import Kind, Position
from headgate.storage.sql import Changed, Database, Stored, Transaction, canonical, entries

WHO_CHARS_MAX = 200
WHY_CHARS_MAX = 1_000
# How often the mirror is made anew outside the lock before it is done inside, others' bulk changes or not.
_CATCH_UPS = 3
# Verbs of blocks and switches alone.
URGENT = frozenset({"add_block", "lift_block", "switch", "unswitch"})

Plan = Callable[[Transaction], Sequence[Wanted]]
# Where each entry stands in what somebody sent.
Places = Mapping[tuple[Kind, str], Path]
Committed = Callable[[Position], None]


def _nobody_listens(position: Position) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Intent:
    """Who makes a change, by which verb, and why; a dry run tells what would happen and changes nothing. `at` is where
    the configuration must still be, if that matters."""

    by: str
    verb: str
    why: str | None = None
    dry_run: bool = False
    at: Position | None = None

    def check(self, head: Position) -> None:
        """Raises Moved."""
        if self.at is not None and self.at != head:
            raise Moved(self.at, head)


class Applying:
    """`committed` is told of every new position after it is written, on the thread that wrote it; it must not wait."""

    def __init__(
        self,
        database: Database,
        *,
        key_secret: bytes | None = None,
        committed: Committed = _nobody_listens,
        now: Clock = now_utc,
    ) -> None:
        self.database = database
        self.mirror = Mirror()
        self._key_secret = key_secret
        self._committed = committed
        self._now = now

    def apply(
        self, wanted: Sequence[Wanted], *, by: str, why: str | None = None, verb: str, dry_run: bool = False
    ) -> Outcome:
        """Make all of it so, as one version, or refuse all of it."""
        return self._run(lambda _: wanted, Intent(by, verb, why, dry_run))

    def _run(self, plan: Plan, intent: Intent) -> Outcome:
        check_intent(intent)
        if intent.verb in URGENT and not intent.dry_run:
            outcome = self._hurry(plan, intent)
        else:
            with self.mirror.held():
                if intent.dry_run:
                    return self._try_out(plan)
                outcome = self._caught_up(lambda at_once: self._write(plan, intent, at_once))
        if outcome.changed:
            self._committed(outcome.position)
        return outcome

    def _hurry(self, plan: Plan, intent: Intent) -> Outcome:
        """An emergency does not wait until the mirror of a million rules is made: a block or a switch is good by
        itself, and the mirror finds it in the log as it does others' changes."""
        with self.mirror.held_if_ready() as is_ready:
            if is_ready:
                with contextlib.suppress(FarBehind):
                    return self._write(plan, intent, True)
        with self.database.write() as tx:
            wanted, changes = _changes(tx, plan)
            counts = count(changes, len(wanted))
            if changes:
                if mistakes := mistakes_in(changes):
                    raise Invalid(mistakes)
                tx.commit_version(intent.by, intent.why, intent.verb, changes)
            return Outcome(tx.head, bool(changes), changes, (), counts, _first_entry(tx, wanted))

    def _caught_up(self, write: Callable[[bool], Outcome]) -> Outcome:
        """Making the mirror of a million rules takes a while; nobody else's change waits for it. `write` is told
        whether it has to give up (FarBehind) rather than do that under the lock."""
        for _ in range(_CATCH_UPS):
            if self.mirror.is_empty:
                with self.database.read() as tx:
                    self.mirror.follow(tx)
            try:
                return write(True)
            except FarBehind:
                self.mirror.forget()
        return write(False)

    def _try_out(self, plan: Plan) -> Outcome:
        with self.database.read() as tx:
            self.mirror.follow(tx)
            wanted, changes = _changes(tx, plan)
            self._judge(tx, _places(wanted), changes)
            contests = find_contests(tx, self.mirror, changes)
            counts = count(changes, len(wanted))
            return Outcome(tx.head, bool(changes), changes, contests, counts, dry_run=True)

    def _write(self, plan: Plan, intent: Intent, at_once: bool) -> Outcome:
        changes: tuple[Changed, ...] = ()
        try:
            with self.database.write() as tx:
                self.mirror.follow(tx, at_once=at_once)
                wanted, changes = _changes(tx, plan)
                counts = count(changes, len(wanted))
                if not changes:
                    return Outcome(tx.head, False, counts=counts, entry=_first_entry(tx, wanted))
                intent.check(tx.head)
                self._judge(tx, _places(wanted), changes)
                tx.commit_version(intent.by, intent.why, intent.verb, changes)
                position = tx.head
                outcome = Outcome(position, True, changes, (), counts, _first_entry(tx, wanted))
        except BaseException:
            # Whether it was written is not always known; the next change reads the log and finds out.
            self.mirror.undo(changes)
            raise
        self.mirror.moved(position)
        return outcome

    def _judge(self, tx: Transaction, places: Places, changes: Sequence[Changed]) -> None:
        """Raises, or leaves the mirror with the changes applied."""
        check_tiers(tx, changes, places)
        refused = self.mirror.attempt(changes)
        if refused and all(flaw.is_for_room for _, flaw in refused):
            # The engine keeps room for what it once saw; a mirror made anew has seen only what there is.
            self.mirror.rebuild(tx)
            refused = self.mirror.attempt(changes)
        if refused:
            self.mirror.undo(changes)
            told = [(places.get((changes[nth].kind, changes[nth].id), ()), flaw) for nth, flaw in refused]
            raise Invalid([((*place, *flaw.path), flaw.message) for place, flaw in told])


def check_intent(intent: Intent) -> None:
    """What people say of a change goes into headers, logs and terminals."""
    mistakes: Mistakes = []
    for name, text, chars_max in (("by", intent.by, WHO_CHARS_MAX), ("why", intent.why or "", WHY_CHARS_MAX)):
        if len(text) > chars_max:
            mistakes.append(((name,), f"is longer than {chars_max:,} characters"))
        elif not text.isprintable():
            mistakes.append(((name,), "must be one line without control characters"))
    if mistakes:
        raise Invalid(mistakes)


def _changes(tx: Transaction, plan: Plan) -> tuple[Sequence[Wanted], tuple[Changed, ...]]:
    """What has to change, of what is wanted: nothing, where it is so already."""
    wanted = plan(tx)
    mistakes: Mistakes = []
    afters = [_after(one, mistakes) for one in wanted]
    _check_unique(wanted, mistakes)
    if mistakes:
        raise Invalid(mistakes)
    changes: list[Changed] = []
    there = _there(tx, wanted)
    for one, after in zip(wanted, afters, strict=True):
        stored = there[one.kind].get(one.id)
        _check_expected(one, stored)
        before = None if stored is None else stored.text
        if before != after:
            changes.append(Changed(one.kind, one.id, before, after))
    return wanted, (*changes, *switches_left_over(tx, changes))


def _there(tx: Transaction, wanted: Sequence[Wanted]) -> dict[Kind, dict[str, Stored]]:
    ids: dict[Kind, list[str]] = {}
    for one in wanted:
        ids.setdefault(one.kind, []).append(one.id)
    return {kind: entries.get_many(tx, kind, named) for kind, named in ids.items()}


def _places(wanted: Sequence[Wanted]) -> Places:
    return {(one.kind, one.id): one.place for one in wanted}


def _after(one: Wanted, mistakes: Mistakes) -> str | None:
    if one.body is None or one.text is not None:
        return one.text
    filled, mismatch = with_id(one.kind, one.id, one.body)
    own: Mistakes = [] if mismatch is None else [mismatch]
    body = clean(one.kind, filled, own)
    mistakes += [((*one.place, *path), message) for path, message in own]
    return canonical(body)


def _check_unique(wanted: Sequence[Wanted], mistakes: Mistakes) -> None:
    seen: dict[tuple[Kind, str], Path] = {}
    for one in wanted:
        if (one.kind, one.id) in seen:
            mistakes.append((one.place, f"the {one.kind.word} `{one.id}` is given twice; keep one"))
        seen[one.kind, one.id] = one.place


def _check_expected(one: Wanted, stored: Stored | None) -> None:
    expect: Expect = one.expect
    if expect == ABSENT and stored is not None:
        raise Exists(one.kind, one.id)
    if expect == PRESENT and stored is None:
        raise NotThere(one.kind, one.id)
    if isinstance(expect, int) and (stored is None or stored.version != expect):
        raise Stale(one.kind, one.id, expect, None if stored is None else stored.version)


def switches_left_over(tx: Transaction, changes: Sequence[Changed]) -> list[Changed]:
    """A deleted rule takes its switch along: a rule of that name made later must not find itself in shadow."""
    touched = {change.id for change in changes if change.kind is Kind.SWITCH}
    gone = [change.id for change in changes if change.kind is Kind.RULE and change.after is None]
    found = [entries.get(tx, Kind.SWITCH, name) for name in gone if name != EVERY_RULE and name not in touched]
    return [Changed(Kind.SWITCH, one.id, one.text, None) for one in found if one is not None]


def _first_entry(tx: Transaction, wanted: Sequence[Wanted]) -> Stored | None:
    return entries.get(tx, wanted[0].kind, wanted[0].id) if wanted else None
