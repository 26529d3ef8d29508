"""The `kubernetes` substrate: one Deployment of slurmd per shape, whose pods are the workers."""
