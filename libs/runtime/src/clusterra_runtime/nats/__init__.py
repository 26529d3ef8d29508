"""NATS: the connection, messages, requests, durable consumers."""
