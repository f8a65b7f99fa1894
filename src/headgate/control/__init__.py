"""The control plane: where the configuration is changed, kept with its history, and handed to nodes.

Nothing here imports a driver or a web framework by itself; `headgate.storage` and `headgate.control.api` do.
"""
