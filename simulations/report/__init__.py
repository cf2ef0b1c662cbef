"""Self-contained HTML pages about runs and comparisons, and views in notebooks."""
