"""Many runs and their tables, and searches for the values of keys."""
