"""What this machine gives a process."""

from __future__ import annotations

import resource
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Files a process may have open; None without a bound."""

    files_soft: int | None
    files_hard: int | None


def look_at_process() -> ProcessFacts:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ProcessFacts(*(None if bound == resource.RLIM_INFINITY else bound for bound in (soft, hard)))
