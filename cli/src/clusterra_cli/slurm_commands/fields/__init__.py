"""What the columns and lines of Slurm's commands say of a job or a node."""
