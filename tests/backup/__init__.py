"""The examples of docs/backup.md, run for real."""
