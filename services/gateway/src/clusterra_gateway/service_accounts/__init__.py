"""The service accounts of a tenant: principals for programs, and their keys."""
