"""Turns queue snapshots into the desired workers of a cluster."""
