"""Link conditions and faults of nodes: loss, delay, noise, privacy, clocks, faults."""
