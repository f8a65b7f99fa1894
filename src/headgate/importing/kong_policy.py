"""What a rate limiting plugin of Kong is set to, as far as a rule can say it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headgate.importing.imported import Level
from headgate.importing.kong_file import Plugin
from headgate.importing.source import Source, present
from headgate.importing.wording import LIMITS_MAX, limit_text, text_problem, too_much
from headgate.model.nodes import Mapping, Scalar

SIMPLE = "rate-limiting"
ADVANCED = "rate-limiting-advanced"

_PERIODS_S = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "month": 30 * 86_400, "year": 365 * 86_400}
_UNEVEN = ("month", "year")
# What is counted there, and the fact it is counted by here. A service or a path is no fact: a counter is shared by all.
_COUNTED_BY = {
    "consumer": "user",
    "credential": "api_key",
    "ip": "ip",
    "service": None,
    "path": None,
    "consumer-group": "tier",
}
_WORDS = frozenset({"user", "api_key", "org", "ip", "endpoint", "method", "region", "tier", "global"})
_STATUSES = range(400, 600)
# Where counters are kept, and how: settings of a node, not of a rule.
_OF_THE_NODE = frozenset(
    {"policy", "strategy", "sync_rate", "redis", "dictionary_name", "lock_dictionary_name", "retry_after_jitter_max"}
)
_COMMON = frozenset({"header_name", "path", "fault_tolerant", "hide_client_headers", "error_code", "error_message"})
_KNOWN = {
    SIMPLE: _OF_THE_NODE | _COMMON | _PERIODS_S.keys() | {"limit_by"},
    ADVANCED: _OF_THE_NODE
    | _COMMON
    | {"limit", "window_size", "window_type", "identifier", "compound_identifier", "namespace", "disable_penalty"},
}


@dataclass(frozen=True, slots=True)
class Policy:
    """`by` is empty for a counter that all share; `each_service` then says one a service. With a `path`, requests for
    exactly that share one, and others count by address."""

    by: tuple[str, ...]
    limits: tuple[tuple[str, str], ...]
    algorithm: str
    each_service: bool = False
    path: str | None = None
    counter: str | None = None
    closed: bool = False
    response: dict[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> dict[str, Any]:
        """How a rule of it counts and answers."""
        texts: Any = [{"limit": text, "label": label} for label, text in self.limits]
        return {
            "algorithm": self.algorithm,
            "limit": texts,
            **({"on_store_failure": "closed"} if self.closed else {}),
            **({"response": self.response} if self.response else {}),
        }


def read_policy(plugin: Plugin) -> Policy | None:
    """None if no rule can say it, of which there is a note, or if it is wrong, of which there is a mistake."""
    source = plugin.source
    node = present(plugin.node, "config") or Mapping(plugin.node.line, plugin.node.column, {})
    config = source.mapping(node, "`config`")
    if config is None:
        return None
    for key, entry in config.entries.items():
        if key not in _KNOWN[plugin.kind] and not key.startswith("redis_") and present(config, key) is not None:
            source.note("cannot", entry, f"`{key}` is not known here, and was left out; the plugin itself is imported")
    simple = plugin.kind == SIMPLE
    limits = _periods(source, config) if simple else _windows(source, config)
    counted = _counted(source, config, "limit_by" if simple else "identifier")
    response = _response(source, config)
    closed = source.flag(config, "fault_tolerant") is False
    if closed:
        source.note("differs", config.entries["fault_tolerant"], "a request that cannot be decided gets 503, not 500")
    if limits is None or counted is None:
        return None
    by, each_service, path = counted
    namespace = None if simple else source.text(config, "namespace")
    fixed = simple or source.text(config, "window_type") == "fixed"
    if not fixed and source.flag(config, "disable_penalty") is not True:
        source.note(
            "differs", config, "a refused request counts there, unless `disable_penalty` is set; here it never does"
        )
    algorithm = "fixed_window" if fixed else "sliding_window_counter"
    return Policy(by, tuple(limits), algorithm, each_service, path, namespace, closed, response)


def _periods(source: Source, config: Mapping) -> list[tuple[str, str]] | None:
    found = []
    for period, window_s in _PERIODS_S.items():
        count = source.integer(config, period, least=1)
        if count is None:
            continue
        if problem := too_much(count, window_s):
            source.note("cannot", config.entries[period], problem)
            continue
        if period in _UNEVEN:
            length = f"{window_s // 86_400} days"
            source.note(
                "differs", config.entries[period], f"a {period} is {length} here, not a {period} of the calendar"
            )
        # `1/month` means the same as `1 per 2592000s` to a rule, and more to its reader.
        found.append((period, f"{count}/{period}"))
    if not found and not any(present(config, period) for period in _PERIODS_S):
        source.wrong(config, f"needs at least one of {', '.join(_PERIODS_S)}")
    return found or None


def _windows(source: Source, config: Mapping) -> list[tuple[str, str]] | None:
    counts, sizes = _numbers(source, config, "limit"), _numbers(source, config, "window_size")
    if counts is None or sizes is None:
        return None
    if not counts or len(counts) != len(sizes):
        source.wrong(config, "needs `limit` and `window_size`, lists of the same length")
        return None
    if len(counts) > LIMITS_MAX:
        source.note("cannot", config, f"a rule has at most {LIMITS_MAX} limits; this plugin is left out")
        return None
    found = {}
    for count, size in sorted(zip(counts, sizes, strict=True), key=lambda pair: pair[1]):
        if problem := too_much(count, size):
            source.note("cannot", config, problem)
        elif f"{size}s" in found:
            source.wrong(config, f"two limits for the same window of {size} s")
        else:
            found[f"{size}s"] = limit_text(count, size)
    return list(found.items()) or None


def _numbers(source: Source, config: Mapping, key: str) -> list[int] | None:
    found = []
    for node in source.list_of(config, key):
        if (
            isinstance(node, Scalar)
            and isinstance(node.value, int)
            and not isinstance(node.value, bool)
            and node.value > 0
        ):
            found.append(node.value)
        else:
            source.wrong(node, f"each of `{key}` must be a whole number above 0")
            return None
    return found


def _counted(source: Source, config: Mapping, key: str) -> tuple[tuple[str, ...], bool, str | None] | None:
    several = source.texts_of(config, "compound_identifier")
    words = [word for word, _ in several] or [source.text(config, key) or "consumer"]
    at = present(config, "compound_identifier") or present(config, key) or config
    if len(words) > 1 and (set(words) & {"service", "path"}):
        source.note("cannot", at, f"{' and '.join(words)} cannot be counted by together; this plugin is left out")
        return None
    by: list[str] = []
    for word in words:
        if word == "header":
            fact = _header(source, config)
        elif word in _COUNTED_BY:
            fact = _COUNTED_BY[word] or ""
        else:
            source.wrong(at, f"`{key}: {word}` is none of {', '.join([*_COUNTED_BY, 'header'])}")
            return None
        if fact is None:
            return None
        if fact:
            by.append(fact)
        for level, what in _SAID.get(word, ()):
            source.note(level, at, what)
    path = source.text(config, "path") if words == ["path"] else None
    if words == ["path"] and (path is None or not path.startswith("/") or set("{}*?#") & set(path)):
        source.wrong(at, "`limit_by: path` needs a plain `path`")
        return None
    return tuple(dict.fromkeys(by)), words == ["service"], path


_SAID: dict[str, tuple[tuple[Level, str], ...]] = {
    "credential": (
        ("differs", "credentials are API keys here: who shows a token is counted by address; `by: user` counts both"),
    ),
    "header": (
        ("differs", "a request without the header is not counted here, and there by its address"),
        ("note", "whoever asks must give the header as a descriptor of that name, as Envoy's descriptors do"),
    ),
    "consumer-group": (
        ("differs", "who is in no group is counted by address there, and here together with all of the tier `free`"),
    ),
}


def _header(source: Source, config: Mapping) -> str | None:
    name = source.text(config, "header_name")
    if name is None:
        source.wrong(config, "counting by header needs a `header_name`")
        return None
    fact = name.lower()
    if fact in _WORDS or text_problem(fact):
        source.note(
            "cannot", config.entries["header_name"], f"the header `{name}` has a name that means something else here"
        )
        return None
    return fact


def _response(source: Source, config: Mapping) -> dict[str, Any]:
    made: dict[str, Any] = {}
    status = source.integer(config, "error_code")
    if status is not None and status not in _STATUSES:
        source.note("cannot", config.entries["error_code"], f"a refusal has a status from 400 to 599, not {status}")
    elif status is not None and status != 429:
        made["status"] = status
    message = source.text(config, "error_message")
    if message is not None:
        problem = text_problem(message)
        if problem:
            source.note("cannot", config.entries["error_message"], problem)
        else:
            made["message"] = message
    if source.flag(config, "hide_client_headers"):
        what = "only what remains is hidden from a rule's headers; the setting `headers: none` leaves out all of them"
        source.note("differs", config.entries["hide_client_headers"], what)
        made["hide_remaining"] = True
    return made
