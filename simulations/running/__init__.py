"""From an experiment to a result."""
