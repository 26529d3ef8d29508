"""The people and programs of a tenant: members, their memberships, invitations, and service accounts."""
