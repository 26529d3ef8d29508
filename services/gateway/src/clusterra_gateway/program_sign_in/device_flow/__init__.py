"""Signs in a program on a machine without a browser: the device flow (RFC 8628)."""
