"""Bin packing of pending jobs onto workers, priced by the USD that a placement is expected to add. Pure functions."""
