"""The admin REST API: `/api/v1`, its OpenAPI document, and the HTTP feed for nodes."""

from headgate.control.api.app import make_app
from headgate.control.api.services import Services

__all__ = ["Services", "make_app"]
