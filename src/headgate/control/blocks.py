"""Blocks: an address range, a user, an org or an API key that is refused everywhere, from now on and for how long."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping
from typing import Any

from headgate.control.applying import Applying
from headgate.control.change import ABSENT, PRESENT, Outcome, Wanted
from headgate.control.errors import Invalid
from headgate.control.moments import read_length, written
from headgate.feed import Kind

_LETTERS = string.ascii_lowercase + string.digits
_ID_CHARS = 12


class BlockVerbs(Applying):
    def add_block(self, given: Mapping[str, Any], *, by: str, why: str | None = None, dry_run: bool = False) -> Outcome:
        """`given` is one of ip, user, org, api_key, perhaps `for` ("1h") or `until`, and perhaps `why`, which is also
        the reason of the change unless that is said apart."""
        body = {name: value for name, value in given.items() if name != "for" and value is not None}
        if "id" in body:
            raise Invalid([(("id",), "a block's id is made here; leave it out")])
        if given.get("for") is not None:
            if "until" in body:
                raise Invalid([(("for",), "give `for` or `until`, not both")])
            try:
                body["until"] = written(self._now() + read_length(given["for"]))
            except ValueError as error:
                raise Invalid([(("for",), str(error))]) from None
        if why is not None:
            body.setdefault("why", why)
        body["id"] = new_block_id()
        reason = why or _one_line(body.get("why"))
        wanted = [Wanted(Kind.BLOCK, body["id"], body, ABSENT)]
        return self.apply(wanted, by=by, why=reason, verb="add_block", dry_run=dry_run)

    def lift_block(self, id: str, *, by: str, why: str | None = None, dry_run: bool = False) -> Outcome:
        """From now on. Raises NotThere when there is none."""
        wanted = [Wanted(Kind.BLOCK, id, None, PRESENT)]
        return self.apply(wanted, by=by, why=why, verb="lift_block", dry_run=dry_run)


def new_block_id() -> str:
    return "b" + "".join(secrets.choice(_LETTERS) for _ in range(_ID_CHARS - 1))


def _one_line(text: object) -> str | None:
    """A reason given with the block, where it can be one of the change as well."""
    return text if isinstance(text, str) and text.isprintable() else None
