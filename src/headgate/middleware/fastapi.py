"""Limits beside the routes of FastAPI applications.

    @app.get("/items", dependencies=[Depends(limit("10/second", by=user_or_ip))])
    async def items(): ...

The same as for Starlette; routes with a limit say so in the OpenAPI document.
"""

from headgate.middleware.openapi import document
from headgate.middleware.starlette import HeadgateMiddleware, Limit, Refused, limit, user_or_ip

__all__ = ["HeadgateMiddleware", "Limit", "Refused", "document", "limit", "user_or_ip"]
