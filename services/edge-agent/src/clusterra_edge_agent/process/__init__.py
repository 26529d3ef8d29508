"""The `process` substrate: slurmd processes of this host."""
