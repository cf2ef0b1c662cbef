"""What a learner is configured with: kernels, losses, schedules, budgets, dispersions, mirror maps."""
