"""The rules as they are written: a file's, or those a control plane told."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.errors import ConfigError, FileError, Mistake
from headgate.feed.places import is_feed
from headgate.limiter import Limiter
from headgate.model.document import bulk_path, read_document
from headgate.settings import Settings
from headgate.upkeep.rules_file import STARTER_FILE, RulesFile

# Of a file of millions, as many as can be compared within seconds.
RULES_MAX = 20_000

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RulesFacts:
    """`count` is how many the engine made of them; None where they could not be read or came from elsewhere."""

    place: str
    mistakes: tuple[Mistake, ...] = ()
    rules: tuple[Rule, ...] = ()
    overrides: tuple[Rule, ...] = ()
    count: int | None = None
    is_cut: bool = False
    is_starter: bool = False


def look_at_rules(settings: Settings) -> RulesFacts | None:
    """None where a control plane sends them: they are in no file."""
    if settings.rules is not None and is_feed(settings.rules):
        return None
    place = settings.rules or str(STARTER_FILE)
    limiter = Limiter()
    try:
        RulesFile(limiter, place).load()
    except FileError as error:
        return RulesFacts(place, error.mistakes)
    except ConfigError as error:
        return RulesFacts(place, (Mistake(place, None, None, (), str(error)),))
    # A folder is another limiter's: which of its rules applies is decided otherwise.
    rules, overrides = ((), ()) if os.path.isdir(place) else _read(place)
    return RulesFacts(
        place,
        (),
        rules[:RULES_MAX],
        overrides[:RULES_MAX],
        limiter.rule_count(),
        len(rules) > RULES_MAX or len(overrides) > RULES_MAX,
        settings.rules is None,
    )


def _read(place: str) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """One more than are looked at, so that it is known whether there are more."""
    bulk = bulk_path(place)
    if bulk is not None:
        with open(bulk, encoding="utf-8") as file:
            lines = itertools.islice((line for line in file if line.strip()), RULES_MAX + 1)
            return tuple(json.loads(line) for line in lines), ()
    document = json.loads(read_document(place).json)
    return tuple(document.get("rules") or ()), tuple(document.get("overrides") or ())
