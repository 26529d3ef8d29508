"""What every substrate shares: the port to it, records, leadership, change signals."""
