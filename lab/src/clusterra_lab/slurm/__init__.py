"""A Slurm control plane on this machine: slurmctld, slurmdbd with its database, and slurmrestd."""
