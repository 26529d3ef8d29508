"""Who calls, and what they may do: credentials, roles, limits, and the kinds of routes that ask for them."""
