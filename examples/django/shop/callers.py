"""Who is asking, for the rules."""

from django.http import HttpRequest


def who(request: HttpRequest) -> dict[str, object] | None:
    """Whoever is signed in is a member; nobody else is anybody, and is counted by address."""
    return {"user": request.user.pk, "tier": "member"} if request.user.is_authenticated else None
