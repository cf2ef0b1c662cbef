"""Which nodes are awake in a round."""
