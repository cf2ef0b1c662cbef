"""Bands from a node's own errors: its own alone, and pooled with its neighbours."""
