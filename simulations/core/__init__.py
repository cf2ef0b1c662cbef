"""What every room stands on: errors, words, seeds, checksums, descriptions of data."""
