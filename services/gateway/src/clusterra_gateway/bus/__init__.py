"""What the gateway asks and hears on NATS."""
