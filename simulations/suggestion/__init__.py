"""Numbers for an experiment that short runs of it have tried."""
