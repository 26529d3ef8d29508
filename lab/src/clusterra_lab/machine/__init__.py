"""Processes, ports, locks and folders of this machine."""
