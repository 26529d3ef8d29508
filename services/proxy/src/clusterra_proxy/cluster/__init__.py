"""The state of one served cluster: connections, job table, idempotency keys."""
