"""Looking at a running set-up and saying what to do. `gather` looks and decides nothing; `judge` is pure and decides;
`examine` puts them together."""
