"""Which workers are drained and released."""
