"""Adaptive filters: learners of signal processing, for one series of samples and as a node's learner."""
