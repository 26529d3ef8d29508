"""Heartbeats of edge-agents over HTTP: keys, exchange, translation."""
