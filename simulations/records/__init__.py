"""The records of runs: results, tables, checkpoints, the run folder, the outcome of a comparison."""
