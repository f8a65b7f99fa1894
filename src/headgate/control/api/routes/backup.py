"""`/backup`: the whole configuration as one file."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.responses import Response

from headgate.control.api.admission import Admin
from headgate.control.api.described import answers
from headgate.control.api.door import trace_of
from headgate.control.api.router import api_router
from headgate.control.api.streams import spooled
from headgate.control.backup_file import backup

router = api_router("whole configuration")

GZIP = "application/gzip"


@router.get(
    "/backup",
    responses=answers(
        {
            200: {
                "description": "One file, for `headgate restore`",
                "content": {GZIP: {"schema": {"type": "string", "format": "binary"}}},
            }
        }
    ),
)
async def take_backup(call: Admin) -> Response:
    """Everything: configuration, history, hashes of keys and tokens. Keep it as you keep the database."""
    trace_of(call.request.scope).notable = True
    name = f"headgate-{datetime.now(UTC):%Y%m%d-%H%M%S}.backup.gz"
    return await call.inside.turns.copies.run(
        lambda: spooled(lambda file: backup(call.services.database, file), GZIP, name)
    )
