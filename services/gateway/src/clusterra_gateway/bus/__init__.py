"""The gateway on NATS: its requests to other services, the event feed, which edges are connected."""
