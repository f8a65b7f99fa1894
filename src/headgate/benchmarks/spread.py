"""Times as the few numbers one looks at."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest value that `part` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def spread(values_ms: Sequence[float], prefix: str = "") -> dict[str, float]:
    """`p50_ms`, `p99_ms`, `max_ms`. Nothing of nothing."""
    if not values_ms:
        return {}
    found = {"p50_ms": quantile(values_ms, 0.5), "p99_ms": quantile(values_ms, 0.99), "max_ms": max(values_ms)}
    return {prefix + name: round(value, 2) for name, value in found.items()}
