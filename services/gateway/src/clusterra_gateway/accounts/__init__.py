"""The record of tenants, people and clusters."""
