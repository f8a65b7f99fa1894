"""What the control plane and its nodes agree on: entries, positions, and how both travel. No driver comes in here."""

from headgate.feed.entry import START, Entry, Kind, Position

__all__ = ["START", "Entry", "Kind", "Position"]
