"""Protocols under which a node has several copies of its learner."""
