"""`python -m clusterra_scaler`: the same as `clusterra-scaler`."""

from clusterra_scaler.cli import command

command()
