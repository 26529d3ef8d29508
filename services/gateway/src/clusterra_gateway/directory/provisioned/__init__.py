"""What a tenant's directory has provisioned by SCIM, in the record: users, groups, and who may sign in."""
