"""What tests of the feed share."""

from __future__ import annotations

import pytest


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that have no rules to wait for."""
    monkeypatch.setattr("headgate.upkeep.feed.follower.PATIENCE_S", 0.1)
