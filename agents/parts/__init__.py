"""The parts of learners: kernels, losses, schedules, budgets, dispersions, mirror maps."""
