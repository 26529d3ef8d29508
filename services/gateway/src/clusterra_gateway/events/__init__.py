"""A cluster's events."""
