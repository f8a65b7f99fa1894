"""What `headgate bench` measures: the speed of a control plane and of the nodes that follow it, on this machine."""
