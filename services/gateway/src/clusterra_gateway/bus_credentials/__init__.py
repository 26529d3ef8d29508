"""Bus credentials: with one, a program of a workspace subscribes to its events at NATS, and may do nothing else."""
