"""Figures, as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def size(count: int) -> str:
    figure, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if figure < 1024 or unit == "TiB":
            break
        figure /= 1024
    return f"{figure:.0f} {unit}" if unit == "B" else f"{figure:.1f} {unit}"
