"""Measures the console in a real browser, with a long list of jobs of a real Slurm."""
