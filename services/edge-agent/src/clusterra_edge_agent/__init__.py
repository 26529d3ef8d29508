"""Keeps a cluster's workers as the scaler desires them, in the customer's network."""
