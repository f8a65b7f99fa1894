"""The control plane's database: everything that is SQL. Its modules are functions over a transaction.

`entries` and `history` read, `bulk` writes many entries at once, `outbox` is what publishers work off; `tokens`,
`calls` and `fleet` are rows in and rows out; `dump` is for backups.
"""

from headgate.storage.sql import bulk, calls, dump, entries, fleet, history, outbox, tokens
from headgate.storage.sql.columns import canonical
from headgate.storage.sql.database import Database
from headgate.storage.sql.entries import Stored
from headgate.storage.sql.history import Step, TooLarge, Version
from headgate.storage.sql.listen import Listener
from headgate.storage.sql.transaction import Changed, Transaction, WriteTransaction

__all__ = [
    "Changed",
    "Database",
    "Listener",
    "Step",
    "Stored",
    "TooLarge",
    "Transaction",
    "Version",
    "WriteTransaction",
    "bulk",
    "calls",
    "canonical",
    "dump",
    "entries",
    "fleet",
    "history",
    "outbox",
    "tokens",
]
