"""The basis of all layers: errors, messages, seeds, files, and the resources of the machine."""
