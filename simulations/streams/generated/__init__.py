"""Endless data drawn from laws."""
