"""Slurm's own notations: array tasks, host lists, trackable resources, and the comment of a job."""
