"""The benchmarks: every speed and memory figure Headgate promises, measured in one run."""
