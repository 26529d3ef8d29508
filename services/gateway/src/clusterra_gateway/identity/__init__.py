"""People: how they sign in, become members, and prove with each request who they are."""
