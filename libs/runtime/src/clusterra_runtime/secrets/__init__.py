"""Secrets: configured as references, read where they are used; their values never travel."""
