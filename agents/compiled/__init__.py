"""Many samples, or many agents, in compiled code."""
