"""The service accounts of a tenant: members for programs, and their keys."""
