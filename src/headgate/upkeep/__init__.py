"""What may change under a running program: files of rules and keys, key sets behind URLs. Never on a request's way."""

from headgate.upkeep.background import Upkeep

__all__ = ["Upkeep"]
