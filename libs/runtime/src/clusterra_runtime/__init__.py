"""What every Clusterra service shares: settings, logs, bus, store, leases, lifecycle."""
