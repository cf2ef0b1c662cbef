"""The records of runs: results, tables, checkpoints, models, folders, the outcome of a comparison."""
