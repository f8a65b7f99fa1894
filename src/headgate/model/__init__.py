"""Rule documents: reading them, checking them, saying where a mistake is."""

from headgate.errors import Mistake
from headgate.model.document import (
    Document,
    RulesSource,
    find_mistakes,
    load_into,
    read_document,
)
from headgate.model.schema import schema_text

__all__ = [
    "Document",
    "Mistake",
    "RulesSource",
    "find_mistakes",
    "load_into",
    "read_document",
    "schema_text",
]
