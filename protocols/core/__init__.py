"""What every protocol stands on: which contract a part fulfils, whose turn it is among threads, arrays as arguments."""
