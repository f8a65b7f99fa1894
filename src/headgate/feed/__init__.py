"""What the control plane and its nodes agree on: entries, positions, and how both travel. No driver is imported here."""

from headgate.feed.entry import START, Entry, Kind, Position

__all__ = ["START", "Entry", "Kind", "Position"]
