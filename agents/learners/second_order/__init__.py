"""Learners that step with the second derivative of what they have seen."""
