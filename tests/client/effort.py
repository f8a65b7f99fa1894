"""How hard properties are tried: the same examples in every run, more and others with `HEADGATE_EFFORT=30`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EFFORT = int(os.environ.get("HEADGATE_EFFORT", "1"))


def tried(count: int) -> settings:
    return settings(
        max_examples=count * EFFORT,
        derandomize=EFFORT == 1,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
