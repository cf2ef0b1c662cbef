"""The basis of all layers: errors, words, seeds, checksums, descriptions of data."""
