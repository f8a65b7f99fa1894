"""Every run tries the same examples, so that a failure seen once is seen by everybody.

To search further, with other examples each time: `HEADGATE_EFFORT=30 pytest tests/properties`.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.properties.strategies import EFFORT, examples

settings.register_profile(
    "headgate",
    parent=examples(60),
    derandomize=EFFORT == 1,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("headgate")
