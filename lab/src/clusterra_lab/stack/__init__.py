"""The whole lab: starting and stopping it, its services, and its state on disk."""
