"""Protocols whose nodes send what they know as a vector: the weights of features that all nodes share."""
