"""KOMP and its parts for large steps, by matrix products."""
