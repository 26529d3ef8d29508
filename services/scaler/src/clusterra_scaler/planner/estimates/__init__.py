"""Estimates learned from observations: run times, provisioning latencies, idle gaps and keep-alive times."""
