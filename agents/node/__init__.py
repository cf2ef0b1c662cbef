"""One node of the network: its agent, what is kept of it, samples drawn ahead."""
