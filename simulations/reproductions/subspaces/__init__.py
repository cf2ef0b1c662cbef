"""Features in a subspace that follows the samples: what the paper on extraction on a budget publishes, measured."""
