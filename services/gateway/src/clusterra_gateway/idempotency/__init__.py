"""Idempotency keys: requests that are sent again and carried out once."""
