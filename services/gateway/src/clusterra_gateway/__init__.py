"""Clusterra's HTTP interface: sessions, jobs, logs, events."""
