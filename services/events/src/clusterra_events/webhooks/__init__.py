"""Webhooks: delivers the events of a tenant to its webhooks, in order, and keeps a log of the deliveries."""
