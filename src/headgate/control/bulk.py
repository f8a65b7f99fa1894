"""Very many entries as one change: a document, a stream of lines, a state of long ago.

They are judged and staged while everybody else goes on; the lock is held only to compare, to try and to merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate._core import validate_rules
from headgate.control.applying import Applying, Intent, Places, check_intent, switches_left_over
from headgate.control.change import Counts, Outcome, Wanted
from headgate.control.contests import find_contests
from headgate.control.document import named_tiers, sections_of, wanted_of
from headgate.control.entry_body import EVERY_RULE, Mistakes, clean, with_id
from headgate.control.errors import ChangeError, Invalid
from headgate.control.lines import read_lines
from headgate.control.mirror import FarBehind
from headgate.control.tier_use import check_all_tiers
from headgate.errors import ConfigError
from headgate.feed import Entry, Kind, Position
from headgate.storage.sql import Changed, WriteTransaction, bulk, canonical, entries

# Up to so many changes are tried one by one and told with their paths; the rest goes through the engine as one.
FEW = 2_000
CHANGES_SHOWN_MAX = 1_000
# Up to so many entries are not staged at all.
DIRECT = 500

Fill = Callable[[bulk.Staging], None]
Progress = Callable[[int], None]


class _Told(Exception):
    """Leaves a transaction that shall not be committed."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class _Merge:
    """What is staged, and what shall become of it."""

    staging: bulk.Staging
    intent: Intent
    prune: Sequence[Kind]
    places: Places
    expect: Callable[[Position], None] | None


class BulkVerbs(Applying):
    def apply_document(
        self,
        document: Mapping[str, Any],
        *,
        prune: bool = False,
        by: str,
        why: str | None = None,
        dry_run: bool = False,
        at: Position | None = None,
    ) -> Outcome:
        """Rules, tiers and overrides as files hold them. With `prune`, whatever is missing in a section of the
        document is deleted; the limits that belong to API keys stay. With `at`, only if nobody has changed anything
        since the configuration was there."""
        intent = Intent(by, "apply", why, dry_run, at)
        wanted = wanted_of(document)
        named = named_tiers(document)
        staged = _judged(wanted)
        places = {(one.kind, one.id): one.place for one in wanted}
        kinds = sections_of(document) if prune else ()
        if len(staged) <= DIRECT and not prune:
            return self._merge_directly(wanted, staged, named, intent)

        def fill(staging: bulk.Staging) -> None:
            staging.put(self._with_descriptions(staged, named))
            if Kind.OVERRIDE in kinds:
                staging.put(self._limits_of_keys(places))

        return self._merge(fill, intent, kinds, places)

    def apply_lines(
        self,
        lines: Iterable[bytes | str],
        *,
        prune: bool = False,
        by: str,
        why: str | None = None,
        dry_run: bool = False,
        at: Position | None = None,
        progress: Progress | None = None,
    ) -> Outcome:
        """A stream of JSON, one rule a line, however many. Mistakes are told with their lines. `progress` is told how
        many rules have been staged."""

        def fill(staging: bulk.Staging) -> None:
            count = 0
            for portion in read_lines(lines):
                count += staging.put(portion)
                if progress is not None:
                    progress(count)

        return self._merge(fill, Intent(by, "apply", why, dry_run, at), (Kind.RULE,) if prune else (), {})

    def _merge_directly(
        self, wanted: Sequence[Wanted], staged: Sequence[Entry], named: frozenset[str], intent: Intent
    ) -> Outcome:
        """A small document is a change like any other: temporary tables would cost more than all the rest."""
        bodies = {(entry.kind, entry.id): entry.body for entry in self._with_descriptions(staged, named)}
        judged = [replace(one, text=bodies[one.kind, one.id]) for one in wanted]
        try:
            return replace(self._run(lambda _: judged, intent), entry=None)
        except ConfigError as error:
            raise Invalid([((), str(error))]) from None

    def _merge(
        self,
        fill: Fill,
        intent: Intent,
        prune: Sequence[Kind],
        places: Places,
        expect: Callable[[Position], None] | None = None,
    ) -> Outcome:
        """`expect` looks at the head under the lock, and raises if what was staged is of no use any more."""
        check_intent(intent)
        try:
            with bulk.staging(self.database) as staging:
                fill(staging)
                staging.settle()
                merge = _Merge(staging, intent, prune, places, expect)
                with self.mirror.held():
                    outcome = self._caught_up(lambda at_once: self._merge_staged(merge, at_once))
                # Nobody needs to wait until what was staged is cleared away.
                self._committed(outcome.position)
        except _Told as told:
            return told.outcome
        except ConfigError as error:
            # What no database can hold, or was given twice.
            raise Invalid([((), str(error))]) from None
        return outcome

    def _merge_staged(self, merge: _Merge, at_once: bool) -> Outcome:
        try:
            with merge.staging.write() as tx:
                if merge.expect is not None:
                    merge.expect(tx.head)
                self.mirror.follow(tx, at_once=at_once)
                planned = merge.staging.plan(tx, merge.prune)
                counts = Counts(planned.created, planned.replaced, planned.deleted, planned.unchanged)
                if not planned.changed:
                    raise _Told(Outcome(tx.head, False, counts=counts, dry_run=merge.intent.dry_run))
                merge.intent.check(tx.head)
                step = self._merge_few if planned.changed <= FEW else self._merge_many
                changes = step(tx, merge, counts)
                position = tx.head
        except (_Told, ChangeError, FarBehind):
            # The mirror is as it was.
            raise
        except BaseException:
            self.mirror.forget()
            raise
        self.mirror.moved(position)
        return Outcome(position, True, changes, (), counts)

    def _merge_few(self, tx: WriteTransaction, merge: _Merge, counts: Counts) -> tuple[Changed, ...]:
        staging, intent = merge.staging, merge.intent
        staged = tuple(staging.differences(tx))
        switches = switches_left_over(tx, staged)
        changes = (*staged, *switches)
        self._judge(tx, merge.places, changes)
        if intent.dry_run:
            contests = find_contests(tx, self.mirror, changes)
            raise _Told(Outcome(tx.head, True, changes[:CHANGES_SHOWN_MAX], contests, counts, dry_run=True))
        if switches:
            tx.commit_version(intent.by, intent.why, intent.verb, changes)
        else:
            staging.merge(tx, intent.by, intent.why, intent.verb)
        return changes[:CHANGES_SHOWN_MAX]

    def _merge_many(self, tx: WriteTransaction, merge: _Merge, counts: Counts) -> tuple[Changed, ...]:
        """The engine judges the state that comes out, before it is committed."""
        staging, intent = merge.staging, merge.intent
        shown = tuple(staging.differences(tx, CHANGES_SHOWN_MAX))
        before = tx.head
        try:
            staging.merge(tx, intent.by, intent.why, intent.verb)
            self._judge_all(tx)
            if intent.dry_run:
                raise _Told(Outcome(before, True, shown, (), counts, dry_run=True))
            self._drop_switches(tx, intent)
        except BaseException:
            self.mirror.forget()
            raise
        return shown

    def _drop_switches(self, tx: WriteTransaction, intent: Intent) -> None:
        """Those of rules that are gone, as a version of their own in the same transaction."""
        switches = [one for one in entries.all(tx, [Kind.SWITCH]) if one.id != EVERY_RULE]
        gone = [one for one in switches if entries.get(tx, Kind.RULE, one.id) is None]
        if gone:
            changes = [Changed(one.kind, one.id, one.body, None) for one in gone]
            tx.commit_version(intent.by, intent.why, intent.verb, changes)
            self.mirror.attempt(changes)

    def _judge_all(self, tx: WriteTransaction) -> None:
        """The whole state with the change in it, as a node will get it. The mirror becomes that."""
        check_all_tiers(tx)
        refused: Mistakes = []
        for word, id, message in self.mirror.rebuild(tx):
            stored = entries.get(tx, Kind.of(word), id)
            # What an older version let in is no mistake of this change.
            if stored is None or stored.version == tx.head.version:
                refused.append(((), f"{word} `{id}`: {message}" if id else message))
        if refused:
            raise Invalid(refused)

    def _with_descriptions(self, staged: Sequence[Entry], named: frozenset[str]) -> Iterator[Entry]:
        """Tiers that were given by their names alone stay as they are."""
        if not named:
            yield from staged
            return
        with self.database.read() as tx:
            for entry in staged:
                is_bare = entry.kind is Kind.TIER and entry.id in named
                stored = entries.get(tx, Kind.TIER, entry.id) if is_bare else None
                yield entry if stored is None else Entry(Kind.TIER, entry.id, stored.text)

    def _limits_of_keys(self, given: Places) -> Iterator[Entry]:
        """Overrides that were made with a key are the key's; documents know nothing of keys and leave them alone."""
        with self.database.read() as tx:
            for entry in entries.all(tx, [Kind.OVERRIDE]):
                principal, _, key = entry.id.partition(":")
                is_given = (Kind.OVERRIDE, entry.id) in given
                if principal == "api_key" and not is_given and entries.get(tx, Kind.KEY, key) is not None:
                    yield entry


def _judged(wanted: Sequence[Wanted]) -> list[Entry]:
    """Canonical bodies. Raises Invalid with every mistake the engine finds in any of them, and where."""
    mistakes: Mistakes = []
    made: list[Entry] = []
    for one in wanted:
        filled, mismatch = with_id(one.kind, one.id, one.body or {})
        own: Mistakes = [] if mismatch is None else [mismatch]
        made.append(Entry(one.kind, one.id, canonical(clean(one.kind, filled, own))))
        mistakes += [((*one.place, *path), message) for path, message in own]
    if not mistakes:
        for section, kind in (("rules", Kind.RULE), ("overrides", Kind.OVERRIDE)):
            bodies = ",".join(entry.body or "" for entry in made if entry.kind is kind)
            mistakes += validate_rules(f'{{"{section}":[{bodies}]}}')
    if mistakes:
        raise Invalid(mistakes)
    return made
