"""Runs Clusterra and its real dependencies on one machine; each dependency is an async context manager."""
