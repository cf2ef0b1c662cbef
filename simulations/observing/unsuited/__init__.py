"""What learner, protocol and network are not made for: what a run that came to its end says of it."""
