"""What happened in a cluster."""
