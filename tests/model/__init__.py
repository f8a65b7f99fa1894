"""Exact, slow models of what Headgate promises: written from its meaning, sharing no code with the engine."""
