"""The caller's clusters."""
