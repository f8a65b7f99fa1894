"""How `headgate check` looks to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate._core import Decision, LimitResult
from headgate.cli.output import console, table


def show(explanation: dict[str, Any], decisions: Sequence[Decision]) -> None:
    out = console()
    out.print(_verdict(decisions[-1], len(decisions)), soft_wrap=True)
    out.print(_facts(explanation), soft_wrap=True)
    if len(decisions) > 1:
        rows = [_check_row(number, decision) for number, decision in enumerate(decisions, 1)]
        out.print(table(("check", "", "remaining", "retry after", "by rule", "path"), rows))
    candidates = explanation.get("candidates") or []
    if candidates:
        out.print(table(("rule", "outcome", "by", "priority", "why"), [_candidate_row(item) for item in candidates]))
    else:
        out.print("no rule matches these facts")
    if decisions[-1].results:
        headings = ("limit", "by", "allows", "remaining", "")
        results = decisions[-1].results
        binding = _binding(decisions[-1])
        out.print(table(headings, [_limit_row(result, n == binding) for n, result in enumerate(results)]))


def _verdict(decision: Decision, checks: int) -> str:
    word = "ALLOWED" if decision.allowed else f"REFUSED with {decision.status}"
    which = f"check {checks}: " if checks > 1 else ""
    by = f" by {decision.rule}" if decision.rule else ""
    text = f"{which}{word}{by} ({decision.path})"
    if decision.limit is not None:
        text += f"; {decision.remaining} of {decision.limit} remain"
    if not decision.allowed:
        text += "; " + _wait(decision.retry_after)
    return text


def _wait(retry_after_s: float | None) -> str:
    return "waiting does not help" if retry_after_s is None else f"retry in {retry_after_s:.3f} s"


def _facts(explanation: dict[str, Any]) -> str:
    facts = explanation.get("facts") or {}
    known = ", ".join(f"{name}={value}" for name, value in facts.items() if value not in (None, "", {}, []))
    tier_from = explanation.get("tier_from")
    return f"facts: {known or 'none'}" + (f" (tier from {tier_from})" if tier_from else "")


def _check_row(number: int, decision: Decision) -> tuple[str, ...]:
    remaining = "" if decision.remaining is None else str(decision.remaining)
    retry = "" if decision.allowed else _wait(decision.retry_after)
    word = "allowed" if decision.allowed else "refused"
    return str(number), word, remaining, retry, decision.rule or "", decision.path


def _candidate_row(candidate: dict[str, Any]) -> tuple[str, ...]:
    outcome = str(candidate.get("outcome", ""))
    if candidate.get("to"):
        outcome += f" to {candidate['to']}"
    by = "+".join(candidate.get("by") or [])
    return (
        str(candidate.get("rule")),
        outcome,
        by,
        str(candidate.get("priority", "")),
        str(candidate.get("why") or ""),
    )


def _binding(decision: Decision) -> int | None:
    """The position of the limit whose figures the decision carries."""
    wanted = (decision.rule, decision.limit, decision.remaining, decision.retry_after)
    for position, result in enumerate(decision.results):
        found = (result.rule, result.limit, result.remaining, result.retry_after)
        if not result.shadow and found == wanted:
            return position
    return None


def _limit_row(result: LimitResult, binding: bool) -> tuple[str, ...]:
    notes = ["shadow"] * result.shadow + ["binding"] * binding
    if not result.allowed:
        notes.append(("would refuse, " if result.shadow else "refuses, ") + _wait(result.retry_after))
    return (
        f"{result.rule}[{result.label}]",
        ", ".join(result.by),
        f"{result.limit} per {result.window:g} s, {result.algorithm}",
        str(result.remaining),
        ", ".join(notes),
    )
