"""Solutions from all samples at once, with which papers compare online learners."""
