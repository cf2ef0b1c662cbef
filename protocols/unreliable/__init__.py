"""Links and clocks together: what becomes of every message of every round."""
