"""Serves clients that are made for slurmrestd: its paths and bodies, with our identities, roles and limits."""
