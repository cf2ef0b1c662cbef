"""How columns as people have them become numbers: gaps, words, times and numbers that are written as text."""
