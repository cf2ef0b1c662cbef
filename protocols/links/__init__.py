"""What happens to messages and nodes: loss, delay, noise, privacy, clocks, faults."""
