"""`settings.HEADGATE` of a Django project."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from headgate.errors import ConfigError
from headgate.middleware import workers
from headgate.middleware.gate import Gate
from headgate.middleware.options import NAMES, make_gate
from headgate.upkeep import Upkeep

SETTING = "HEADGATE"
_THROTTLES = "throttles"
# Options that a settings file may name instead of importing.
_DOTTED = ("limiter", "identify", "cost", "when")

_making = threading.Lock()
_gate: Gate | None = None
_is_met = False


def is_configured() -> bool:
    return hasattr(settings, SETTING)


def project_gate() -> Gate:
    """One for the whole process: middleware, decorators and throttles count together."""
    global _gate
    if _gate is None:
        with _making:
            if _gate is None:
                _gate = _make_gate()
    return _gate


def meet(gate: Gate) -> None:
    """At the first request of the process."""
    global _is_met
    if not _is_met:
        _is_met = True
        Upkeep.of(gate.limiter).start()
        workers.look(gate.limiter)


def throttle_limit(scope: str) -> str:
    """`settings.HEADGATE["throttles"][scope]`."""
    limits = _options().get(_THROTTLES, {})
    if not isinstance(limits, Mapping) or not isinstance(limits.get(scope), str):
        raise ImproperlyConfigured(
            f'settings.{SETTING}["{_THROTTLES}"]["{scope}"]: no limit is given; write it as {{"{scope}": "60/minute"}}'
        )
    return str(limits[scope])


def _options() -> dict[str, Any]:
    found = getattr(settings, SETTING, {})
    if not isinstance(found, Mapping):
        raise ImproperlyConfigured(f"settings.{SETTING}: expected a dict, got {type(found).__name__}")
    return dict(found)


def _make_gate() -> Gate:
    options = _options()
    options.pop(_THROTTLES, None)
    for key, value in options.items():
        if key not in NAMES:
            known = ", ".join((*NAMES, _THROTTLES))
            raise ImproperlyConfigured(f'settings.{SETTING}["{key}"]: not an option; expected any of {known}')
        if key in _DOTTED and isinstance(value, str):
            options[key] = _imported(key, value)
    try:
        return make_gate(options)
    except ConfigError as error:
        raise ImproperlyConfigured(f"settings.{SETTING}: {error}") from error


def _imported(key: str, path: str) -> Any:
    try:
        return import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(f'settings.{SETTING}["{key}"]: {error}') from error


def _forget(*, setting: str, **_: object) -> None:
    """Tests change settings while the process runs."""
    global _gate, _is_met
    if setting == SETTING:
        _gate, _is_met = None, False


setting_changed.connect(_forget, dispatch_uid="headgate")
