"""The use cases of the control plane, on both databases."""
