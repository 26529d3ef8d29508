"""Events of a cluster, and of a workspace."""
