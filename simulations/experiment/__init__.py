"""The experiment file: names, parts, keys, what a comparison varies."""
