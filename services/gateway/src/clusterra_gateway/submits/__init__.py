"""Submits jobs: each once for its idempotency key, within its quotas, and held while its files are staged."""
