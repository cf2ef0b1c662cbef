"""Finite data from files, tables and libraries."""
