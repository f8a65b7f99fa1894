"""Headgate and its peers at the same work, column by column: `python -m bench.side_by_side --help`."""
