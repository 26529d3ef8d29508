"""Job admission without workers: placeholder node records in Slurm, and the limits of the largest shapes."""
