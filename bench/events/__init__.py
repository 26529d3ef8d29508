"""A bench of events, and the processes of its load."""
