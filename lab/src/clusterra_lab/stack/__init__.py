"""Everything together: services, life and state of a lab."""
