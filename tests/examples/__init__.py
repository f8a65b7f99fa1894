"""Manifests and units of `examples/`, held against validators and the real command."""
