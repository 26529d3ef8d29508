"""The dependencies NATS, AWS and OIDC, and a user of the gateway."""
