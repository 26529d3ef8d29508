"""Webhooks: URLs outside of the platform to which the events of a workspace are delivered, signed."""
