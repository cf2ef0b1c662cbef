"""The round: blocks of agents, messages between them, measurements, and the backends that run it."""
