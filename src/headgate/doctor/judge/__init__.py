"""From what was seen to findings: pure functions."""
