"""Reads requests: parameters, bodies, and the errors that they lead to."""
