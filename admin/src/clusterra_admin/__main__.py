"""`python -m clusterra_admin` is `clusterra-admin`."""

from clusterra_admin.cli import command

command(prog_name="clusterra-admin")
