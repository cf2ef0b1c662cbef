"""The nodes of a network, one by one and many in arrays, and their compiled rounds."""
