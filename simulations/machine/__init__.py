"""This process and this machine: memory, locks, signals, workers, compilation."""
