"""The basis of all layers: errors, messages, seeds, files, and what this machine has."""
