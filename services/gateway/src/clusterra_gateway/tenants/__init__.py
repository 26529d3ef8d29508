"""Tenants and their clusters in the record: made, changed and deleted by the platform's operators."""
