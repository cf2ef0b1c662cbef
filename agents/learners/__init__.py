"""What a learner is, and the functional gradient descents; the families of learners have packages of their own."""
