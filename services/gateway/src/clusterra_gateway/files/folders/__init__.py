"""Browsing of the cluster's shared folder over the edge, with the rights of the caller's own user there."""
