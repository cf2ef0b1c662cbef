"""Graphs as people have them: nodes of any kind, and the forms and formats that graphs come in."""
