"""Versioned items with conditions and an outbox: a port, DynamoDB and memory behind it."""
