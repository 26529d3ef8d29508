"""What a cluster's own site tells: jobs by the hooks of its Slurm, machines by the events of its cloud."""
