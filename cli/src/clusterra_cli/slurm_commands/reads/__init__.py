"""Reads what Slurm has: jobs of the queue and of accounting, associations, and the end of a job."""
