"""The local learners, one file each, and what several of them share."""
