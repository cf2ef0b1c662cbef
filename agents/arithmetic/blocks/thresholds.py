"""From which sizes on a step is taken with matrix-matrix products."""

BLOCKED_FROM_SAMPLES = 8
"""Points of a step."""
