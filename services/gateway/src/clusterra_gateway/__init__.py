"""Clusterra's HTTP interface: sign-in, clusters, jobs, output, events, edge-agents."""
