"""Versioned items with conditions and an outbox: a port with adapters for DynamoDB and for memory."""
