"""Pages with Django in them need it set up, which can be done once in a process."""

from tests.web import django_project  # noqa: F401
