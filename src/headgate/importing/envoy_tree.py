"""envoyproxy/ratelimit's files as trees: a level an entry, as its loader makes them, with the same mistakes refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate.importing.source import Source, present
from headgate.importing.wording import DESCRIPTORS_MAX, TEXT_BYTES_MAX
from headgate.model.nodes import Entry, Mapping, Node, Scalar

# Entries of one descriptor.
DEPTH_MAX = DESCRIPTORS_MAX
COUNT_MAX = 2**32 - 1
UNITS = ("second", "minute", "hour", "day", "week", "month", "year")
WILDCARD = "*"

_ROOT_KEYS = ("domain", "descriptors")
_DESCRIPTOR_KEYS = (
    *("key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode"),
    *("detailed_metric", "value_to_metric", "share_threshold"),
)
_LIMIT_KEYS = ("unit", "requests_per_unit", "unlimited", "name", "replaces")
KEYS = frozenset((*_ROOT_KEYS, *_DESCRIPTOR_KEYS, *_LIMIT_KEYS))
# YAML 1.1 has more words for these than JSON, and its loader takes them.
_YES, _NO = frozenset({"y", "yes", "on"}), frozenset({"n", "no", "off"})


@dataclass(frozen=True, slots=True)
class Limit:
    """`rate_limit:`. `unit` is None for one that is unlimited."""

    count: int
    unit: str | None
    name: str | None
    replaces: tuple[str, ...]
    is_shadow: bool
    is_quota: bool


@dataclass(slots=True)
class Level:
    """What follows what was matched so far: by the text that it is looked up by, in the order of the file."""

    below: dict[str, Descriptor] = field(default_factory=dict)


@dataclass(slots=True)
class Descriptor(Level):
    """One item of `descriptors:`."""

    source: Source = field(kw_only=True)
    at: Mapping = field(kw_only=True)
    key: str = field(kw_only=True)
    value: str | None = field(kw_only=True)
    is_shared: bool = field(kw_only=True)
    limit: Limit | None = field(kw_only=True)

    @property
    def text(self) -> str:
        return self.key if self.value is None else f"{self.key}_{self.value}"


def read_domain(source: Source, domains: dict[str, Level]) -> None:
    """Put what a file has into its domain's tree. Mistakes go to the source."""
    root = source.mapping(source.root, "the file")
    if root is None:
        return
    if "rules" in root.entries and "domain" not in root.entries:
        words = "this is a file of Headgate's own rules, not of envoyproxy/ratelimit; name the file, not its folder"
        source.wrong(root.entries["rules"], words)
        return
    _check_keys(source, root, _ROOT_KEYS)
    domain = _text(source, root, "domain")
    if domain is None:
        source.wrong(root, "needs a `domain`")
        return
    if domain in domains:
        source.note("note", root.entries["domain"], f"`{domain}` is in another file too: both are taken together")
    _read_level(source, root, domains.setdefault(domain, Level()), 1)


def reachable(level: Level) -> Iterator[tuple[str, Descriptor]]:
    """In the order of the file, without what can never be met: of the beginnings the first that fits is taken there, so
    whatever another one above covers is never looked at."""
    beginnings: set[str] = set()
    for text, item in level.below.items():
        if text.endswith(WILDCARD):
            above = next((text[:cut] for cut in range(len(text)) if text[:cut] in beginnings), None)
            if above is not None:
                words = f"never met, left out: `{above}{WILDCARD}` above it takes all that this would"
                item.source.note("note", item.at, words)
                continue
            beginnings.add(text[: -len(WILDCARD)])
        yield text, item


def _read_level(source: Source, parent: Mapping, level: Level, depth: int) -> None:
    for at in source.mappings_of(parent, "descriptors"):
        if depth > DEPTH_MAX:
            source.wrong(at, f"nested deeper than {DEPTH_MAX} descriptors; no call has so many entries")
            return
        item = _read_descriptor(source, at)
        if item is None:
            continue
        if item.text in level.below:
            source.wrong(at, f"`{item.text}` is here already: key and value, joined by `_`, tell descriptors apart")
            continue
        level.below[item.text] = item
        _read_level(source, at, item, depth + 1)


def _read_descriptor(source: Source, at: Mapping) -> Descriptor | None:
    _check_keys(source, at, _DESCRIPTOR_KEYS)
    key = _text(source, at, "key")
    if key is None:
        source.wrong(at, "a descriptor needs a `key`")
        return None
    is_shared = _flag(source, at, "share_threshold")
    item = Descriptor(
        source=source,
        at=at,
        key=key,
        value=_text(source, at, "value"),
        is_shared=is_shared,
        limit=_read_limit(source, at),
    )
    if is_shared and not item.text.endswith(WILDCARD):
        words = f"`share_threshold` needs a `value` that ends with `{WILDCARD}`"
        source.wrong(at.entries["share_threshold"], words)
    for metric in ("detailed_metric", "value_to_metric"):
        if _flag(source, at, metric):
            words = f"`{metric}`: metrics here are labelled by rule, never by a request's values; the limit is the same"
            source.note("cannot", at.entries[metric], words)
    return item


def _read_limit(source: Source, descriptor: Mapping) -> Limit | None:
    is_shadow, is_quota = _flag(source, descriptor, "shadow_mode"), _flag(source, descriptor, "quota_mode")
    node = present(descriptor, "rate_limit")
    at = None if node is None else source.mapping(node, "`rate_limit`")
    if at is None:
        return None
    _check_keys(source, at, _LIMIT_KEYS)
    name = _text(source, at, "name")
    count = source.integer(at, "requests_per_unit")
    if count is not None and count > COUNT_MAX:
        source.wrong(at.entries["requests_per_unit"], f"`requests_per_unit` must be at most {COUNT_MAX:,}")
    unit = _read_unit(source, at, is_unlimited=_flag(source, at, "unlimited"))
    if count is None and unit is not None:
        source.note("note", at, "no `requests_per_unit` is none at all: every request is refused, as it is there")
    replaces = tuple(_replaced(source, at, name))
    return Limit(count or 0, unit, name, replaces, is_shadow, is_quota)


def _read_unit(source: Source, at: Mapping, *, is_unlimited: bool) -> str | None:
    unit = source.text(at, "unit")
    is_known = unit is not None and unit.lower() in UNITS
    if is_unlimited:
        if is_known:
            source.wrong(at.entries["unit"], "what is `unlimited` has no `unit`")
        return None
    if unit is None or not is_known:
        place: Mapping | Entry = at.entries.get("unit", at)
        source.wrong(place, f"`unit` must be one of {', '.join(UNITS)}")
        return UNITS[0]
    return unit.lower()


def _replaced(source: Source, limit: Mapping, own: str | None) -> Iterator[str]:
    for at in source.mappings_of(limit, "replaces"):
        _check_keys(source, at, ("name",))
        name = _text(source, at, "name")
        if name is None:
            source.wrong(at, "`replaces` needs the `name` of a limit")
        elif name == own:
            source.wrong(at, "a limit does not replace itself")
        else:
            yield name


def _check_keys(source: Source, mapping: Mapping, known: tuple[str, ...]) -> None:
    for key, entry in mapping.entries.items():
        if key in known:
            continue
        if key in KEYS:
            source.note("note", entry, f"`{key}` has no meaning here, and is passed over there as well")
        else:
            source.wrong(entry, f"`{key}` is not known here; expected one of {', '.join(known)}")


def _text(source: Source, mapping: Mapping, key: str) -> str | None:
    """A text that a rule can hold. An empty one is as good as none, and `True` is four letters, as it is there."""
    node = present(mapping, key)
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.word or str(node.value).lower()
    text = source.text(mapping, key)
    if not text:
        return None
    if len(text.encode()) > TEXT_BYTES_MAX:
        source.wrong(mapping.entries[key], f"`{key}` must be at most {TEXT_BYTES_MAX:,} bytes long")
    elif not _is_printable(text):
        source.wrong(mapping.entries[key], f"`{key}` must not hold control characters")
    return text


def _is_printable(text: str) -> bool:
    return not any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in text)


def _flag(source: Source, mapping: Mapping, key: str) -> bool:
    node: Node | None = present(mapping, key)
    word = node.value.lower() if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    if word in _YES | _NO:
        return word in _YES
    return source.flag(mapping, key) or False
