"""Figures that Python code asks for, one at a time: returned, and drawn into axes of the user's."""
