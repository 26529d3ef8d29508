"""A cluster's jobs."""
