"""API tokens: their records, their handlers, and the revocation of credentials."""
