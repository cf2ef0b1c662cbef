"""Which node is which: the names that graph and data have for nodes, the keys that list nodes, and who is faulty."""
