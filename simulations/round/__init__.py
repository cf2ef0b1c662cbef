"""The round: a block of agents, its messages, its measures, what an engine is."""
