"""Many runs, and their tables."""
