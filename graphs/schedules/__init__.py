"""Which edges of a network are there in which round."""
