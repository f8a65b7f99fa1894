"""How entries travel: deltas, snapshots, and small sealed notes. All are authenticated with the feed key.

    delta     HGD1 | epoch | since | to | at_us (u64 each) | count u32 | deflated u8 | length u32 | entries | mac
    snapshot  HGS1 | epoch | version | at_us (u64 each) | blocks | 0 u32 | count u64 | mac
    block     length u32 | deflated entries, at most BLOCK_BYTES_MAX before that
    entry     kind u8 | length of id u16 | length of body u32, all ones for gone | id | body

Numbers are little-endian; a mac is the HMAC-SHA256 of everything before it. crates/node/src/feed reads the same.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from headgate.errors import ConfigError, FeedError
from headgate.feed.entry import Entry, Kind, Position

DELTA_MAGIC = b"HGD1"
SNAPSHOT_MAGIC = b"HGS1"
KEY_BYTES_MIN = 32
MAC_BYTES = 32
# What a block holds before it is deflated; an entry larger than that has one of its own.
BLOCK_BYTES = 512 * 1024
BODY_BYTES_MAX = 2 * 1024 * 1024
ID_BYTES_MAX = 4096
BLOCK_BYTES_MAX = BLOCK_BYTES + BODY_BYTES_MAX + ID_BYTES_MAX + 7
# Beyond it a snapshot is the better way.
DELTA_BYTES_MAX = 64 * 1024 * 1024
_DEFLATE_FROM = 512
_LEVEL = 1
_GONE = 0xFFFF_FFFF

_DELTA_HEAD = struct.Struct("<4sQQQQIBI")
_SNAPSHOT_HEAD = struct.Struct("<4sQQQ")
_ENTRY_HEAD = struct.Struct("<BHI")
_LENGTH = struct.Struct("<I")
_COUNT = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed after `since`, up to `to`."""

    since: Position
    to: Position
    at_us: int
    entries: tuple[Entry, ...]


def check_key(key: bytes) -> bytes:
    """Raises ConfigError for a key that is too weak; never with any part of it."""
    if len(key) < KEY_BYTES_MIN:
        words = f"the feed key is too weak: {len(key)} bytes, expected at least {KEY_BYTES_MIN} (openssl rand -hex 32)"
        raise ConfigError(words)
    return key


def feed_token(key: bytes) -> str:
    """What a node shows the control plane's HTTP feed: proof that it has the key, without the key."""
    return hmac.new(check_key(key), b"headgate feed", hashlib.sha256).hexdigest()


def seal(key: bytes, note: bytes) -> bytes:
    """A small note with its mac in front."""
    return _mac(key, b"HGN1" + note) + note


def unseal(key: bytes, raw: bytes) -> bytes:
    """Raises FeedError for what was not sealed with this key."""
    mac, note = raw[:MAC_BYTES], raw[MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, b"HGN1" + note)):
        raise FeedError("forged", "a note was not sealed with this feed key")
    return note


def encode_delta(key: bytes, since: Position, to: Position, at_us: int, entries: Iterable[Entry]) -> bytes:
    """Of several entries with one kind and id the last is kept: bodies are whole."""
    if since.epoch != to.epoch or since.version > to.version:
        raise ValueError(f"a delta goes forward within one epoch, not from {since} to {to}")
    last = {(entry.kind, entry.id): entry for entry in entries}
    body = b"".join(_encode_entry(entry) for entry in last.values())
    deflated = len(body) >= _DEFLATE_FROM
    if deflated:
        body = zlib.compress(body, _LEVEL)
    head = _DELTA_HEAD.pack(
        DELTA_MAGIC, to.epoch, since.version, to.version, at_us, len(last), int(deflated), len(body)
    )
    return head + body + _mac(key, head + body)


def decode_delta(key: bytes, raw: bytes) -> Delta:
    """Raises FeedError for what is damaged or not ours."""
    epoch, since, to, at_us, count, deflated = _delta_head(key, raw)
    body = raw[_DELTA_HEAD.size : -MAC_BYTES]
    if deflated:
        body = _inflate(body, DELTA_BYTES_MAX)
    entries = tuple(_decode_entries(body))
    if len(entries) != count or since > to:
        raise FeedError("corrupt", "a delta does not hold what it says")
    return Delta(Position(epoch, since), Position(epoch, to), at_us, entries)


def delta_reach(raw: bytes) -> tuple[Position, Position, int]:
    """From where, to where, and when: of a delta's head, not verified. Raises FeedError for what is no delta."""
    if len(raw) < _DELTA_HEAD.size + MAC_BYTES or raw[:4] != DELTA_MAGIC:
        raise FeedError("corrupt", "this is no delta")
    _, epoch, since, to, at_us, *_ = _DELTA_HEAD.unpack_from(raw)
    return Position(epoch, since), Position(epoch, to), at_us


def delta_span(key: bytes, raw: bytes) -> tuple[Position, Position]:
    """`since` and `to` of a delta, verified, at no more than the price of its mac. Raises FeedError as
    `decode_delta`."""
    epoch, since, to, *_ = _delta_head(key, raw)
    return Position(epoch, since), Position(epoch, to)


def write_snapshot(file: BinaryIO, key: bytes, position: Position, at_us: int, entries: Iterable[Entry]) -> int:
    """Writes as it reads, in bounded memory; gives how many entries."""
    mac = hmac.new(check_key(key), digestmod=hashlib.sha256)

    def put(raw: bytes) -> None:
        mac.update(raw)
        file.write(raw)

    def put_block(pieces: list[bytes]) -> None:
        block = zlib.compress(b"".join(pieces), _LEVEL)
        put(_LENGTH.pack(len(block)) + block)

    put(_SNAPSHOT_HEAD.pack(SNAPSHOT_MAGIC, position.epoch, position.version, at_us))
    count, size = 0, 0
    pieces: list[bytes] = []
    for entry in entries:
        raw = _encode_entry(entry)
        if pieces and size + len(raw) > BLOCK_BYTES:
            put_block(pieces)
            pieces, size = [], 0
        pieces.append(raw)
        size += len(raw)
        count += 1
    if pieces:
        put_block(pieces)
    put(_LENGTH.pack(0) + _COUNT.pack(count))
    file.write(mac.digest())
    return count


def snapshot_position(raw: bytes) -> Position:
    """Of a snapshot's first bytes, not verified. Raises FeedError for what is no snapshot."""
    if len(raw) < _SNAPSHOT_HEAD.size or raw[:4] != SNAPSHOT_MAGIC:
        raise FeedError("corrupt", "this is no snapshot")
    _, epoch, version, _ = _SNAPSHOT_HEAD.unpack_from(raw)
    return Position(epoch, version)


def read_snapshot(file: BinaryIO, key: bytes) -> Iterator[Entry]:
    """Entries as they come; raises FeedError at the end when they were not ours. The engine verifies before it reads;
    this is for tools and tests."""
    mac = hmac.new(check_key(key), digestmod=hashlib.sha256)

    def take(size: int) -> bytes:
        raw = file.read(size)
        if len(raw) != size:
            raise FeedError("corrupt", "a snapshot is cut short")
        mac.update(raw)
        return raw

    snapshot_position(take(_SNAPSHOT_HEAD.size))
    count = 0
    while length := int(_LENGTH.unpack(take(_LENGTH.size))[0]):
        if length > BLOCK_BYTES_MAX:
            raise FeedError("corrupt", "a block of a snapshot is too long")
        for entry in _decode_entries(_inflate(take(length), BLOCK_BYTES_MAX)):
            count += 1
            yield entry
    (said,) = _COUNT.unpack(take(_COUNT.size))
    digest = mac.digest()
    if not hmac.compare_digest(file.read(MAC_BYTES), digest) or file.read(1):
        raise FeedError("forged", "a snapshot was damaged, or not made with this feed key")
    if said != count:
        raise FeedError("corrupt", "a snapshot does not hold what it says")


def check_snapshot(file: BinaryIO, key: bytes) -> None:
    """That a whole file is ours, without reading what it says. Raises FeedError."""
    mac = hmac.new(check_key(key), digestmod=hashlib.sha256)
    snapshot_position(kept := file.read(BLOCK_BYTES))
    while more := file.read(BLOCK_BYTES):
        mac.update(kept[:-MAC_BYTES])
        kept = kept[-MAC_BYTES:] + more
    mac.update(kept[:-MAC_BYTES])
    if not hmac.compare_digest(kept[-MAC_BYTES:], mac.digest()):
        raise FeedError("forged", "a snapshot was damaged, or not made with this feed key")


def _delta_head(key: bytes, raw: bytes) -> tuple[int, int, int, int, int, int]:
    if len(raw) < _DELTA_HEAD.size + MAC_BYTES or raw[:4] != DELTA_MAGIC:
        raise FeedError("corrupt", "this is no delta")
    _, epoch, since, to, at_us, count, deflated, length = _DELTA_HEAD.unpack_from(raw)
    if len(raw) != _DELTA_HEAD.size + length + MAC_BYTES or length > DELTA_BYTES_MAX:
        raise FeedError("corrupt", "a delta is cut short or too long")
    _check_mac(key, raw, "a delta")
    return epoch, since, to, at_us, count, deflated


def _encode_entry(entry: Entry) -> bytes:
    name = entry.id.encode()
    body = b"" if entry.body is None else entry.body.encode()
    if len(name) > ID_BYTES_MAX or len(body) > BODY_BYTES_MAX:
        raise ValueError(f"{entry.kind.word} {entry.id[:60]!r} is too large to be published")
    return _ENTRY_HEAD.pack(entry.kind, len(name), _GONE if entry.body is None else len(body)) + name + body


def _decode_entries(raw: bytes) -> Iterator[Entry]:
    at = 0
    while at < len(raw):
        try:
            kind, name_length, body_length = _ENTRY_HEAD.unpack_from(raw, at)
            at += _ENTRY_HEAD.size
            body_end = at + name_length + (0 if body_length == _GONE else body_length)
            if body_end > len(raw):
                raise ValueError
            name = raw[at : at + name_length].decode()
            body = None if body_length == _GONE else raw[at + name_length : body_end].decode()
            at = body_end
            yield Entry(Kind(kind), name, body)
        except (struct.error, ValueError):
            raise FeedError("corrupt", "an entry cannot be read") from None


def _inflate(raw: bytes, bytes_max: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(raw, bytes_max)
    except zlib.error:
        raise FeedError("corrupt", "what was deflated cannot be read") from None
    if not inflater.eof or inflater.unused_data:
        raise FeedError("corrupt", "what was deflated is cut short or too long")
    return plain


def _check_mac(key: bytes, raw: bytes, what: str) -> None:
    if not hmac.compare_digest(raw[-MAC_BYTES:], _mac(key, raw[:-MAC_BYTES])):
        raise FeedError("forged", f"{what} was damaged, or not made with this feed key")


def _mac(key: bytes, raw: bytes) -> bytes:
    return hmac.digest(check_key(key), raw, hashlib.sha256)
