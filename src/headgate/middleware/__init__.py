"""Headgate in web applications: `asgi`, `wsgi`, `starlette`, `fastapi`, `flask`, `django`, `drf`.

Nothing here decides anything: requests are taken in, the engine is asked, its answer is put out.
"""

from headgate.middleware.passage import Passage
from headgate.middleware.views import Request, Response

__all__ = ["Passage", "Request", "Response"]
