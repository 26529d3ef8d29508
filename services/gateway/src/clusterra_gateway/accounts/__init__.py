"""The gateway's record of tenants, members and clusters."""
