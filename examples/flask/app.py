"""A small shop. Its login counts failures only; everything else follows rules.yaml."""

import hmac
import os

from flask import Flask, request, session

from headgate.middleware import Response
from headgate.middleware.flask import Headgate

# A real shop keeps hashes, in a database.
PASSWORDS = {"ann": "correct horse", "bob": "battery staple"}

app = Flask(__name__)
app.secret_key = os.environ.get("SECRET_KEY") or os.urandom(32)


def who() -> dict[str, str] | None:
    """Who is asking, for the rules: whoever is logged in is a member, and nobody else is anybody."""
    return {"user": session["user"], "tier": "member"} if "user" in session else None


gate = Headgate(
    app,
    rules="rules.yaml",
    store=os.environ.get("STORE", "memory://"),
    identify=who,
    exempt=["/healthz", "/static/*"],
)


def is_failure(response: Response) -> bool:
    return response.status == 403


@app.post("/login")
@gate.limit("10/hour", by="ip", when=is_failure)
@gate.limit("3/hour", by=lambda: request.form.get("user"), when=is_failure)
def login() -> tuple[str, int]:
    """Three wrong passwords for one name, ten from one address. The right one costs nothing."""
    user, password = request.form.get("user", ""), request.form.get("password", "")
    if not hmac.compare_digest(password.encode(), PASSWORDS.get(user, os.urandom(8).hex()).encode()):
        return "Wrong name or password\n", 403
    session["user"] = user
    return f"Welcome, {user}\n", 200


@app.get("/items")
def items() -> list[str]:
    return ["lamp", "table"]


@app.get("/healthz")
def healthz() -> str:
    return "well\n"
