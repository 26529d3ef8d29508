"""Shows the identity sources of a tenant, and who the caller is on a cluster."""
