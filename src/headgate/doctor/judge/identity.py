"""Whether anybody's credentials could ever be good."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.doctor.finding import Finding, problem, warning, well
from headgate.doctor.gather.identity import IdentityFacts, Said


def judge_identity(facts: IdentityFacts) -> Iterator[Finding]:
    if not facts.is_set_up:
        return
    if facts.refusal is not None:
        yield problem(
            "identity.refused",
            "A node cannot know its callers this way",
            " ".join(facts.refusal.split()),
            "correct it: a node ends at its start with this message",
        )
        return
    if facts.is_late:
        yield problem(
            "identity.late",
            "How callers are known could not be read in time",
            "a file or the key set did not come",
            "look at the disk of the key files, and at the server of jwt_jwks",
        )
        return
    for said in facts.said:
        if said.level == "error":
            yield problem(
                "identity.no_keys",
                "There are no keys to verify tokens with",
                _shown(said),
                "every token is refused until the key set is there: look at the URL of jwt_jwks and the way to it",
            )
        elif said.level == "warning":
            yield warning(
                "identity.unsafe",
                "Callers are known in a way that is not safe, or not yet",
                _shown(said),
                "use an https:// URL for jwt_jwks, of a server that answers",
            )
        elif said.details.get("api_keys") == 0:
            yield warning(
                "identity.no_api_keys",
                "The file of API keys has none",
                "every API key is refused",
                "`headgate keys create` makes one",
            )
        else:
            keys = ", ".join(f"{name.replace('_', ' ')}: {n}" for name, n in said.details.items() if n is not None)
            yield well("identity.known", "Callers are known by their credentials", keys)


def _shown(said: Said) -> str:
    about = "; ".join(str(value) for name, value in said.details.items() if name != "part")
    return f"{said.event}: {' '.join(about.split())}"
