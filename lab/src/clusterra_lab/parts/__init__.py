"""NATS, DynamoDB, OIDC, and a person who uses them."""
