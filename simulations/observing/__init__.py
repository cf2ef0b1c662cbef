"""Observers of a running simulation: its progress, its warnings, and columns of the user's own."""
