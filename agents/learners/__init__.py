"""What a learner is, and the functional gradient descents; the families of learners have rooms of their own."""
