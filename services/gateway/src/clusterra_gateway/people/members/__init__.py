"""The members of a tenant: their roles, whether they may sign in, and their tokens."""
