"""The watcher: polls a cluster, publishes its events and its queue snapshots."""
