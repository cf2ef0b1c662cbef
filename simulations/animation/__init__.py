"""A run as a moving picture: the network that learns, and its curves as they grow."""
