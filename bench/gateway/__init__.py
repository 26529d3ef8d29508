"""Measures the gateway beside slurmrestd, on real Slurm with many jobs."""
