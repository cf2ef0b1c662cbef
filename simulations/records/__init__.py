"""What stays of a run: results, tables, checkpoints, the run folder, the outcome of a comparison."""
