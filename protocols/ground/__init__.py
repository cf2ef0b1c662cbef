"""What every protocol stands on: which contract a part fulfils, and whose turn it is among threads."""
