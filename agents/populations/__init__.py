"""Which arrays nodes move into, and those of nodes with several copies of their learner."""
