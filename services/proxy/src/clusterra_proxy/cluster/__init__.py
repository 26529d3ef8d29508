"""What the proxy holds of one cluster."""
