"""The identity of nodes: their names in graph and data, the keys that list them, and faulty ones."""
