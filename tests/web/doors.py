"""One small application in every framework, and one way to ask them all.

/api/<anything>    answers
/answer/<status>   answers with that status
/fails             raises
/stream            answers piece by piece
/limited           has a limit of its own: `view_limit`, by ip
/login/<status>    has a limit of its own that counts only failures: 2/minute, by ip
/met               meets a limit of `Limiter.limit` inside: 1/minute for everybody
/free              is exempt by its decorator
"""

from __future__ import annotations

from collections.abc import Callable

from tests.web.answers import Door
from tests.web.django_doors import make_async_django, make_django
from tests.web.flask_doors import make_flask

Maker = Callable[..., Door]

MAKERS: dict[str, Maker] = {"flask": make_flask, "django": make_django, "django-async": make_async_django}
