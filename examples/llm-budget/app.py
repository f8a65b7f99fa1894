"""Tokens of a language model, budgeted for each user and each organisation."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from headgate import IdentityOptions, RateLimited
from headgate.middleware import Passage
from headgate.middleware.fastapi import HeadgateMiddleware

app = FastAPI(title="Ask")
app.add_middleware(
    HeadgateMiddleware,
    rules="rules.yaml",
    store=os.environ.get("STORE", "memory://"),
    identity=IdentityOptions(api_keys="keys.yaml", api_key_secret=Path("keys.secret")),
)


class Question(BaseModel):
    prompt: str
    max_tokens: int = Field(4000, ge=1, le=8000)


class Meter:
    """How many tokens an answer has taken so far, and how many were left when it began."""

    def __init__(self, tokens_left: int | None) -> None:
        self.tokens_left = tokens_left
        self.tokens = 0


async def budget(question: Question, request: Request) -> AsyncIterator[Meter]:
    """Reserves the most the answer may take, of the user's budget and the organisation's at once; settles at what it
    took. FastAPI comes back here when the answer is sent, or the client is gone, or something failed."""
    passage: Passage = request.scope["headgate"]
    async with passage.reserve(descriptors={"unit": "tokens"}, cost=question.max_tokens) as reservation:
        if not reservation.allowed:
            raise RateLimited(reservation.decision)
        meter = Meter(reservation.decision.remaining)
        try:
            yield meter
        finally:
            reservation.commit(meter.tokens)


@app.post("/ask")
async def ask(question: Question, meter: Annotated[Meter, Depends(budget)]) -> StreamingResponse:
    async def answer() -> AsyncIterator[str]:
        async for token in model(question.prompt, question.max_tokens):
            meter.tokens += 1
            yield token

    told = {"X-Tokens-Remaining": str(meter.tokens_left)}
    return StreamingResponse(answer(), media_type="text/plain", headers=told)


async def model(prompt: str, max_tokens: int) -> AsyncIterator[str]:
    """Stands in for a language model: it counts as far as it is asked to, and stops at `max_tokens`."""
    asked = re.search(r"\d+", prompt)
    for number in range(1, min(int(asked[0]) if asked else 3, max_tokens) + 1):
        await asyncio.sleep(0.05 if "slowly" in prompt else 0)
        yield f"{number} "
