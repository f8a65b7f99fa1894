"""A verb's function with options that many verbs share: what is told of an option stands once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Verb = Callable[..., None]


def own_parameters(verb: Verb) -> list[inspect.Parameter]:
    """Those a verb names itself."""
    every = inspect.signature(verb, eval_str=True).parameters.values()
    return [item for item in every if item.kind is not item.VAR_KEYWORD]


def options_of(shared: Mapping[str, Any]) -> list[inspect.Parameter]:
    """Options by their annotations; a switch is off unless given, others are not given."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(annotation), annotation=annotation)
        for name, annotation in shared.items()
    ]


def composed(verb: Verb, parameters: Sequence[inspect.Parameter], run: Verb) -> Verb:
    """A command with the verb's name and help that takes these parameters and runs `run` with them."""
    kind = inspect.Parameter.KEYWORD_ONLY
    every = [item.replace(kind=kind) for item in parameters]

    def command(**given: Any) -> None:
        run(**given)

    command.__doc__ = verb.__doc__
    command.__name__ = verb.__name__
    command.__module__ = verb.__module__
    command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in every}
    return command


def _default(annotation: Any) -> bool | None:
    return False if annotation.__origin__ is bool else None
