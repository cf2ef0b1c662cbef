"""Least squares on the features of samples, and the decompositions of matrices behind it."""
