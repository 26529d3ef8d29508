"""Runs: several jobs that depend on each other, submitted and remembered as one."""
