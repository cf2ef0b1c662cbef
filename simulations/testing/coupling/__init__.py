"""The contracts of what couples neighbours: protocols of values and of vectors, distances, tolerances."""
