"""Networks: topologies by name, networks from files, validation, diagnostics, cost, layouts, schedules."""
