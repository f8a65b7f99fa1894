"""The counter scripts, put together from `lua/` as the engine does it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

LUA = Path(__file__).parents[2] / "lua"
SHARED = ("record.lua", "algorithms.lua", "hits.lua")
VERBS = ("check", "peek", "refund", "reset")


@cache
def compose(verb: str) -> str:
    """The verb's shebang has to come first, then what the verbs share, then the verb."""
    shebang, body = (LUA / f"{verb}.lua").read_text(encoding="utf-8").split("\n", 1)
    return "\n".join([shebang, *((LUA / name).read_text(encoding="utf-8") for name in SHARED), body])
