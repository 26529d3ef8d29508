"""NATS: connection, messages, requests, durable consumers, leases, topology."""
