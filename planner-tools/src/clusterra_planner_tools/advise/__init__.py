"""What the work in a Slurm's own records would have cost: read on this machine, simulated, and reported."""
