"""Findings in a form that tests can compare."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.doctor.finding import Finding, Level
from headgate.doctor.gather.store import look_at_store
from headgate.doctor.judge.store import judge_store

PLENTY_MS = 60_000.0


def bad(findings: Iterable[Finding], least: Level = Level.NOTE) -> dict[str, str]:
    """The level of each finding that is not just well, by its code; the worst where there are several."""
    found: dict[str, Level] = {}
    for finding in findings:
        if finding.level >= least:
            found[finding.code] = max(finding.level, found.get(finding.code, Level.OK))
    return {code: level.word for code, level in found.items()}


def store_findings(url: str, deadline_ms: float = PLENTY_MS) -> list[Finding]:
    return list(judge_store(look_at_store(url), deadline_ms))


def only(findings: Iterable[Finding], code: str) -> Finding:
    (found,) = [finding for finding in findings if finding.code == code]
    return found
