"""Nodes that pass on weighted means of their samples, and fit their functions to all that they know."""
