"""A Django project in the tests' process, and small sites for it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import django
from django.conf import settings
from django.test import override_settings
from django.urls import URLPattern

HEADGATE = "headgate.middleware.django.HeadgateMiddleware"
SESSIONS = (
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
)

# Django is set up once in a process.
_folder = Path(tempfile.mkdtemp(prefix="hg-django-"))
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": _folder / "db.sqlite3"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework"],
    LOGGING_CONFIG=None,
    MIDDLEWARE=[HEADGATE],
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    SECRET_KEY="a secret",
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    USE_TZ=True,
)
django.setup()


def site(
    patterns: Sequence[URLPattern],
    headgate: dict[str, Any] | None = None,
    middleware: Sequence[str] = (HEADGATE,),
    **more: Any,
) -> override_settings:
    """The project with these views and settings, for a `with`."""
    urls = ModuleType("urls")
    urls.urlpatterns = list(patterns)  # type: ignore[attr-defined]
    if headgate is not None:
        more["HEADGATE"] = headgate
    return override_settings(ROOT_URLCONF=urls, MIDDLEWARE=list(middleware), **more)
