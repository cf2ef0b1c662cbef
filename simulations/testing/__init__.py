"""Checks that a part keeps the contract of its kind, for ours and for a user's own."""
