"""How a node logs: one event a line, to standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

# Values a person copies or reads as they are: on lines of their own, without the quotes of a key=value pair.
_SPELT_OUT = ("try_it", "error")


def configure(level: str, style: str) -> None:
    """`style` is console (for people) or json (for machines)."""
    renderer: Any
    if style == "json":
        renderer = structlog.processors.JSONRenderer()
        exceptions: list[Any] = [structlog.processors.format_exc_info]
    else:
        renderer = _Console(colors=sys.stderr.isatty())
        exceptions = []
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *exceptions,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


class _Console:
    def __init__(self, *, colors: bool) -> None:
        self._line = structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0)

    def __call__(self, logger: Any, name: str, event: MutableMapping[str, Any]) -> str:
        spelt_out = [str(event.pop(key)) for key in _SPELT_OUT if key in event]
        lines = [line for text in spelt_out for line in text.splitlines()]
        return "\n    ".join([self._line(logger, name, event), *lines])
