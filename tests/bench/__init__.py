"""Measurements for people to run and read; no tests. Each prints a small table."""
