"""The audit: who did what in a cluster, and its export."""
