"""Who is who at a site: identity sources with their maps, and what a tenant's directory provisions by SCIM."""
