"""Who you are, and the members, service accounts and tokens of your workspace."""
