"""What a node knows and does."""

from pathlib import Path

from kernelswarm.agents.compiled_cache import drop_stale

# The compiled functions of these two rooms call one another.
drop_stale([Path(__file__).parent, Path(__file__).parent.parent / "protocols"])
