"""Slurm's own commands over HTTP: `sbatch`, `squeue`, `scancel`, `sacct`, `sinfo`, `scontrol` and a batch-like `srun`.

Programs that start Slurm's commands and read what they print work with these in the same way. `clusterra-slurm squeue`
runs one, and so does a link of that name to `clusterra-slurm`. What a command prints is Slurm's interface; what it asks
is slurmrestd's own form, which the gateway passes on.
"""
