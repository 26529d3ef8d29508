"""Interactive sessions: what their jobs tell, and byte streams to their servers."""
