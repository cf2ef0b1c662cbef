"""From an experiment to a result, with observers on the way and warnings about unsuited settings."""
