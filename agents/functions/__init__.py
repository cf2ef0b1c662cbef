"""The functions of learners: expansions in kernels and in subspaces, and mirrored functions."""
