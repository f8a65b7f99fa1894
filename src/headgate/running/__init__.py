"""What every process of ours does: log, wait for signals, do chores between them."""
