"""A Django project for real servers, whose workers import it: `gunicorn tests.web.django_site:application`."""

from __future__ import annotations

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from headgate.middleware.django import limit
from tests.web.apps import LIMIT, make_limiter

settings.configure(
    ALLOWED_HOSTS=["*"],
    HEADGATE={"limiter": make_limiter()},
    MIDDLEWARE=["headgate.middleware.django.HeadgateMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="a secret",
)


def index(_: HttpRequest) -> HttpResponse:
    return HttpResponse("seen")


@limit(f"{LIMIT // 2}/hour", by="global")
async def limited(_: HttpRequest) -> HttpResponse:
    return HttpResponse("limited")


urlpatterns = [path("", index), path("limited", limited)]
application = get_wsgi_application()
asgi_application = get_asgi_application()
