"""The experiment file: names, parts, keys, and the varied keys of comparisons."""
