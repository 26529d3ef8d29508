"""Clusterra's real dependencies on one machine, each an async context manager."""
