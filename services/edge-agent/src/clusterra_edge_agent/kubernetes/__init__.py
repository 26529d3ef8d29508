"""The `kubernetes` substrate: one slurmd Deployment per shape, whose pods are the workers."""
