"""What is done for a framework's application when its middleware first sees it."""

from __future__ import annotations

import sys


def meet(app: object) -> None:
    """`app` is what a framework put into the scope; None where there is no framework."""
    if app is not None and "fastapi" in sys.modules:
        from headgate.middleware import openapi

        openapi.document(app)
