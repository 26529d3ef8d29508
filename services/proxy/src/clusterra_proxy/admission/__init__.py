"""What Slurm admits while no worker is there."""
