"""Leader election among the agents of one Kubernetes cluster."""
