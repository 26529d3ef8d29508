"""The commands of `clusterra`, a module for each group."""
