"""What networks bear that are not ideal, measured."""
