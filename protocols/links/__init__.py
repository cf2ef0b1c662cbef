"""What happens to a message on its way: lost, late, rounded, noisy."""
