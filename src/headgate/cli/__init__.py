"""The `headgate` command. Verbs are thin: they read flags, call one thing, and show what it said."""

from headgate.cli.app import app, main

__all__ = ["app", "main"]
