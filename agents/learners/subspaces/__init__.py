"""Learners whose features follow the samples."""
