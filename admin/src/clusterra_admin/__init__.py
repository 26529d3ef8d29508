"""`clusterra-admin`: the command of an installation's operators."""
