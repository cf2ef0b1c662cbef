"""Learners that are linear in features which stay as they are."""
