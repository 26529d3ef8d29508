"""Processes, containers, ports, locks and folders of this machine."""
