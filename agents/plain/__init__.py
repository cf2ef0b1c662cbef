"""Functions for compiled rounds that call the methods of parts in plain Python."""
