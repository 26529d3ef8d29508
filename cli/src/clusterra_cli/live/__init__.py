"""`clusterra top`: the queue, the fleet and the costs of a cluster, kept up to date by its stream of events."""
