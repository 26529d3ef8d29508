"""Explains in plain text why a job waits, from the last decision. Pure functions."""
