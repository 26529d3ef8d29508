"""Reads the output of jobs from the shared folder."""
