"""The tenants that a person belongs to, and the choice among them."""
