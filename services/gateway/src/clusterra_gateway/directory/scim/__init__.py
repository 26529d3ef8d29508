"""SCIM 2.0 (RFC 7643, RFC 7644): a tenant's directory provisions its users and groups."""
