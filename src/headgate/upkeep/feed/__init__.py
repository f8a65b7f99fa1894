"""How a node gets its rules from the control plane, and keeps them when that is away. Never on a request's way."""

from headgate.upkeep.feed.follower import Follower, NoRules, Status
from headgate.upkeep.feed.source import Source, SourceError
from headgate.upkeep.feed.urls import make_source, make_sources

__all__ = ["Follower", "NoRules", "Source", "SourceError", "Status", "make_source", "make_sources"]
