"""From which sizes on a step is taken with matrix-matrix products."""

BLOCKED_FROM_SAMPLES = 8
"""Points of a step."""

LEAST_BLOCKED_ORDER = 128
"""Points of the dictionary, of the learners for which the fewest are enough: others have bounds of their own."""
