"""Figures: functions that draw into given axes, and plots.py, which creates and saves the figures."""
