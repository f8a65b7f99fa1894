"""The only place that imports drivers: databases and brokers. Needs `headgate[control]`."""
