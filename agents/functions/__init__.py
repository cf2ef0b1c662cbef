"""What a learner has learned: expansions in kernels, in subspaces, mirrored ones."""
