"""What can be seen of a simulation while it goes on, and what its observers add to its tables."""
