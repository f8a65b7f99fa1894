"""A weather service with three tiers of customers, known by their API keys."""

import os
from pathlib import Path

from fastapi import FastAPI, Request

from headgate import IdentityOptions
from headgate.middleware.fastapi import HeadgateMiddleware, limit

app = FastAPI(title="Weather")
app.add_middleware(
    HeadgateMiddleware,
    rules="rules.yaml",
    store=os.environ.get("STORE", "memory://"),
    identity=IdentityOptions(api_keys="keys.yaml", api_key_secret=Path("keys.secret")),
    exempt=["/healthz", "/docs", "/openapi.json"],
)


@app.get("/weather/{city}")
async def weather(city: str) -> dict[str, str]:
    return {"city": city, "sky": "clear"}


@app.post("/reports", status_code=202)
@limit("2/minute", by="user")
async def order_report(city: str) -> dict[str, str]:
    """Dear to make, so limited beside its route, on top of the rules."""
    return {"report": city}


@app.get("/me")
async def me(request: Request) -> dict[str, object]:
    """Who Headgate says is asking."""
    return dict(request.scope["headgate"].facts)


@app.get("/healthz")
async def healthz() -> str:
    return "well"
