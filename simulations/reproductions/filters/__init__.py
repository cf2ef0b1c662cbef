"""What is published of adaptive filters, measured."""
