"""Looking: each part within a bounded time, and what could not be seen is a fact as well."""
