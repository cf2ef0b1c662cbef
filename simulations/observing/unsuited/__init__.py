"""Warnings of a complete run about data that learner, protocol or network are not made for."""
