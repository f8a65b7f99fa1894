"""Django's models can be imported only when it is set up: before any test that does."""

from tests.web import django_project  # noqa: F401
