"""Which node is which: the names that graph and data have for nodes, brought together, and the keys that list nodes."""
