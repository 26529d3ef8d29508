"""The demo: its jobs, the observer of the bus, the live view and the report."""
