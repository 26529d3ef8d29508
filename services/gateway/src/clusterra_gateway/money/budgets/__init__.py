"""Budgets: what the jobs of a user, an account or a tenant should cost in a month, and alerts at thresholds."""
