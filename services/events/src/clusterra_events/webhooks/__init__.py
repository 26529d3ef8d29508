"""Webhooks: delivers the events of a tenant to its webhooks, in order, and tells what became of each."""
