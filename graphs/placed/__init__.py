"""Networks of nodes that are at places: who is near whom says which are adjacent."""
