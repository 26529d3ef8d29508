"""How programs sign in on behalf of a person: OAuth 2.0, the device flow, and the loopback redirect."""
