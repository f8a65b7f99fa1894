"""`Changes`: every way the configuration is changed, in one place for those who call it."""

from __future__ import annotations

from headgate.control.blocks import BlockVerbs
from headgate.control.change import Contest, Counts, Outcome, Wanted
from headgate.control.keys import KeyVerbs, MadeKey
from headgate.control.rolling_back import Diff, HistoryVerbs
from headgate.control.verbs import Verbs

__all__ = ["Changes", "Contest", "Counts", "Diff", "MadeKey", "Outcome", "Wanted"]


class Changes(Verbs, KeyVerbs, BlockVerbs, HistoryVerbs):
    """One a process is enough, and any number may share a database: the database's lock puts their changes in order.
    Safe to use from many threads."""
