"""`/apply` and `/export`: a whole configuration in and out.

An upload is read by the worker thread that applies it, a piece at a time and only when it is wanted: a database that is
slow slows the sender down, and memory stays where it is. A client that goes away in the middle leaves nothing behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Annotated, BinaryIO, Literal

from fastapi import Query
from starlette.responses import Response

from headgate.control.api import described, models
from headgate.control.api.admission import Editor, Viewer
from headgate.control.api.applied import applied_reply
from headgate.control.api.call import JSON, Call
from headgate.control.api.described import CHANGE_HEADERS, answers
from headgate.control.api.options import Change, Changing, YesNo, how
from headgate.control.api.problems import Problem, unprocessable
from headgate.control.api.router import api_router
from headgate.control.api.streams import spooled
from headgate.control.api.strict_json import read_json
from headgate.control.change import Outcome
from headgate.feed import Kind, Position
from headgate.storage.sql import Database, entries

router = api_router("whole configuration")

NDJSON = "application/x-ndjson"
DOCUMENT_BYTES_MAX = 64 * 1024 * 1024
LINE_BYTES_MAX = 64 * 1024
LINES_MAX = 5_000_000

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": described.ref("Document"),
                "examples": {"document": {"value": {"rules": [{"name": "all", "by": "user", "limit": "9/minute"}]}}},
            },
            NDJSON: {"schema": {"type": "string", "description": "A rule a line, of any number of lines."}},
        },
    }
}


@router.post(
    "/apply",
    responses=answers(
        {200: described.model(models.Applied | models.AppliedDry, "Applied", CHANGE_HEADERS)}, 409, 412, 413, 415
    ),
    openapi_extra=_BODY,
)
async def apply(
    call: Editor,
    change: Changing,
    prune: Annotated[YesNo, Query(description="Delete what is not in it, of the kinds it holds.")] = "false",
    at: Annotated[
        models.PositionText | None,
        Query(description="The `at` of a dry run: only if nothing was changed since.", max_length=40),
    ] = None,
) -> Response:
    """All of it, as one version, or nothing. What is so already is left alone, so applying twice changes nothing."""
    media = call.check_media((JSON, NDJSON))
    taken = _apply_lines if media == NDJSON else _apply_document
    turns = call.inside.turns.uploads if media == NDJSON or not call.is_small else call.inside.turns.changes
    wanted = _position(at) if at is not None else None
    return applied_reply(await turns.run(partial(taken, call, change, prune == "true", wanted)))


def _position(text: str) -> Position:
    try:
        return Position.parse(text)
    except ValueError as error:
        raise unprocessable(f"at: {error}", ("query.at", str(error))) from None


def _apply_lines(call: Call, change: Change, prune: bool, at: Position | None) -> Outcome:
    lines = bounded_lines(call.chunks())
    return call.services.changes.apply_lines(lines, prune=prune, at=at, **how(call, change))


def _apply_document(call: Call, change: Change, prune: bool, at: Position | None) -> Outcome:
    document = read_json(call.raw(DOCUMENT_BYTES_MAX))
    if not isinstance(document, dict):
        raise unprocessable("the body must be a JSON object", ("", "expected an object with rules, tiers, overrides"))
    return call.services.changes.apply_document(document, prune=prune, at=at, **how(call, change))


@router.get(
    "/export",
    responses=answers(
        {
            200: {
                "description": "The configuration: a document, or rules one a line",
                "content": {JSON: {"schema": described.ref("Document")}, NDJSON: {"schema": {"type": "string"}}},
            }
        }
    ),
)
async def export(call: Viewer, format: Literal["json", "ndjson"] = "json") -> Response:
    """Rules, tiers and overrides as `/apply` takes them; as lines, rules alone."""
    return await call.inside.turns.copies.run(partial(_exported, call, format))


def _exported(call: Call, format: str) -> Response:
    texts = _lines(call.services.database) if format == "ndjson" else _whole(call.services.database)

    def write(file: BinaryIO) -> None:
        file.writelines(text.encode() for text in texts)

    return spooled(write, NDJSON if format == "ndjson" else JSON)


def bounded_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Lines of an upload, without their ends. Raises Problem (413) for one that is too long, or too many."""
    rest, count = b"", 0
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            count += 1
            yield _bounded(line, count)
        if len(rest) > LINE_BYTES_MAX:
            _bounded(rest, count + 1)
    if rest:
        yield _bounded(rest, count + 1)


def _bounded(line: bytes, number: int) -> bytes:
    if len(line) > LINE_BYTES_MAX:
        raise Problem(413, f"line {number} is longer than {LINE_BYTES_MAX // 1024} KiB; a line is one rule")
    if number > LINES_MAX:
        raise Problem(413, f"more than {LINES_MAX:,} lines; send fewer at once")
    return line


def _lines(database: Database) -> Iterator[str]:
    with database.read() as tx:
        for entry in entries.all(tx, [Kind.RULE]):
            yield f"{entry.body}\n"


def _whole(database: Database) -> Iterator[str]:
    sections = (("tiers", Kind.TIER), ("rules", Kind.RULE), ("overrides", Kind.OVERRIDE))
    with database.read() as tx:
        before = "{"
        for name, kind in sections:
            yield f"{before}{json.dumps(name)}:["
            separator = ""
            for entry in entries.all(tx, [kind]):
                yield f"{separator}{entry.body}"
                separator = ","
            before = "],"
        yield "]}"
