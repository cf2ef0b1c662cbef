"""One learned function on its own, and its file."""
