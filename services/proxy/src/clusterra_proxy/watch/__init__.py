"""Watching a cluster: polls, facts, events and snapshots."""
