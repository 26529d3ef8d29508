"""Workflows: several jobs that depend on each other, submitted and stored as one. The API calls them runs."""
