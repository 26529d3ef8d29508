"""The invitations that admins make: who may join their tenant, and as what."""
