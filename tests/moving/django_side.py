"""One side of a page about Django, in a process of its own: `python -m tests.moving.django_side PAGE SIDE`.

Each section's views stand at paths of their own names, in a project with sessions, users and a database in memory. What
a block of settings says is put over that. Prints what every row was answered, as JSON.
"""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.urls import path

from tests.moving.claims import FOLDER, Claim, Requests, claims, run

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]


def main(page: str, side: str) -> None:
    settings.configure(
        SECRET_KEY="only for this test",
        ALLOWED_HOSTS=["*"],
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
        MIDDLEWARE=MIDDLEWARE,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
        USE_TZ=True,
    )
    django.setup()
    call_command("migrate", verbosity=0)
    answered = {claim.section: answers(claim, side) for claim in claims(page) if side in claim.programs}
    print(json.dumps(answered))


def answers(claim: Claim, side: str) -> list[list[str]]:
    from django.core.cache import cache
    from django.test import Client, override_settings

    cache.clear()
    where = FOLDER / f"{claim.page}.md"
    said = {}
    if side in claim.settings:
        variables = run(claim.settings[side], where)
        said = {name: value for name, value in variables.items() if name.isupper()}
    with override_settings(**said):
        views = run(claim.programs[side], where)
        urls = types.ModuleType("urls")
        names = {row.requests.path.strip("/") for row in claim.rows}
        urls.urlpatterns = [path(name, views[name]) for name in names if name in views]  # type: ignore[attr-defined]
        with override_settings(ROOT_URLCONF=urls):
            # One for all: a client of Django's makes the middleware, and with it counters in memory.
            client = Client(raise_request_exception=False)
            return [[str(status) for status in ask(client, row.requests)] for row in claim.rows]


def ask(client: Any, requests: Requests) -> list[int]:
    from django.contrib.auth.models import User

    if requests.user is not None:
        client.force_login(User.objects.get_or_create(username=requests.user)[0])
    elif "sessionid" in client.cookies:
        client.logout()
    send = getattr(client, requests.method.lower())
    return [
        send(requests.path, requests.form, headers=requests.headers, REMOTE_ADDR=requests.client).status_code
        for _ in range(requests.times)
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
