"""One suite of behaviour for every store: what a limiter promises does not depend on where its counters are."""
