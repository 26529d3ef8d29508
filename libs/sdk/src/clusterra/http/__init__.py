"""Requests and streams over HTTP: retries, resumption, and the two transports."""
