"""What the papers prove, beside what is measured where the optimum is known."""
