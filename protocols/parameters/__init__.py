"""Protocols whose nodes send a vector: the weights of features that all nodes share."""
