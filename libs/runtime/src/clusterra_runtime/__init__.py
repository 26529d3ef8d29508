"""The base of every Clusterra service: settings, logs, bus, store, leases, lifecycle."""
