"""Tenants, people and clusters of an installation: a file applied to the record, and the record looked at."""
