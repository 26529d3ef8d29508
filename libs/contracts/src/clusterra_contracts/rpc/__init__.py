"""Requests and replies on the bus."""
