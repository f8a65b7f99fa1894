"""`headgate serve`: a node and a control plane on SQLite in one process, with nothing else to run."""
