"""The edges of a network, round by round."""
