"""How the tables came to be, one revision a file. Run by `Database.migrate`, never through alembic's own command."""
