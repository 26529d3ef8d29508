"""Quotas: how much the jobs of a user, an account or a tenant may cost in a month, reserved before they start."""
