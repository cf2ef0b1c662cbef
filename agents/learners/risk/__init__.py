"""Learners of risk measures and values: compositional gradients."""
