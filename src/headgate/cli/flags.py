"""Flags for settings, made from the table of settings: a setting added there has a flag here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

from headgate import setting_values as values
from headgate.cli.composed import composed, own_parameters
from headgate.settings import CONFIG_FILE, CONFIG_VARIABLE, SettingItem, setting_items

_METAVARS = {
    "listen": "HOST:PORT",
    "grpc": "HOST:PORT",
    "admin": "HOST:PORT",
    "uds": "PATH",
    "rules": "FILE|URL",
    "database": "URL",
    "control": "HOST:PORT",
    "regions": "NAME=URL,...",
    "feed_key_file": "FILE",
    "feed_snapshot": "FILE",
    "node_id": "NAME",
    "tls_cert": "FILE",
    "tls_key": "FILE",
    "tls_client_ca": "FILE",
    "store": "URL",
    "jwt_secret_file": "FILE",
    "jwt_public_key": "FILES",
    "jwt_jwks": "FILE|URL",
    "api_keys": "FILE",
    "api_key_secret_file": "FILE",
    "api_key_header": "NAME",
    "trusted_proxies": "RANGES",
    "headers": "WORDS",
    "upstream": "[/PREFIX=]URL",
    "upstream_ca": "FILE",
}
# Those that may be given several times, which is the same as several by comma.
_REPEATED = frozenset({"upstream"})
_CONFIG_HELP = f"Settings file. Default: {CONFIG_FILE} here, if there is one [{CONFIG_VARIABLE}]"


def with_setting_flags(
    verb: Callable[..., None], also: Mapping[str, str] = MappingProxyType({})
) -> Callable[..., None]:
    """Give a verb that takes `config` and `**flags` one option for every setting. All are text: settings are
    validated in one place, wherever they come from. `also` gives some a second name."""
    options = [_option(item, also.get(item.name)) for item in setting_items()]
    config = inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, typer.Option("--config", help=_CONFIG_HELP, metavar="FILE")],
    )
    own = [item for item in own_parameters(verb) if item.name != "config"]

    def run(**given: Any) -> None:
        for name in _REPEATED:
            given[name] = ",".join(given[name]) if given[name] else None
        verb(**given)

    return composed(verb, [*options, config, *own], run)


def _option(item: SettingItem, also: str | None) -> inspect.Parameter:
    default = "" if item.default is None else f" (default {values.shown(item.default)})"
    names = [also, item.flag] if also else [item.flag]
    option = typer.Option(*names, help=f"{item.about}{default} [{item.variable}]", metavar=_metavar(item))
    annotation = Annotated[list[str] | None, option] if item.name in _REPEATED else Annotated[str | None, option]
    return inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _metavar(item: SettingItem) -> str:
    if item.name.endswith("_s"):
        return "SECONDS"
    if isinstance(item.default, int | float):
        return "N"
    return _METAVARS.get(item.name, "WORD")
