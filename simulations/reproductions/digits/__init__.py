"""What is published of handwritten digits, measured on MNIST."""
