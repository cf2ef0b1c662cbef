"""The functions of learners: expansions in kernels, in subspaces, mirrored ones."""
