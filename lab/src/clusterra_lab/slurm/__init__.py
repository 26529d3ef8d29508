"""Slurm on this machine: slurmctld, slurmdbd, slurmrestd."""
