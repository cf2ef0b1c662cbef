"""Networks: topologies by name, networks from files, validation, diagnostics, the cost of a round, layouts."""
