"""`python -m clusterra_cli.slurm_commands squeue`: the same as `clusterra-slurm squeue`."""

from clusterra_cli.slurm_commands.program import main

main()
