"""The nodes of a network, as objects and in arrays, and their compiled rounds."""
