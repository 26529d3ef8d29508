"""The requests that a cluster's proxy answers."""
