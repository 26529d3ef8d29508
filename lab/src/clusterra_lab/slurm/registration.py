"""Reads from slurmd's log when a worker registered: the log has milliseconds, slurmctld only whole seconds."""

import re
from datetime import UTC, datetime

from clusterra_lab.slurm.control_plane import SlurmCluster

_REGISTERS = re.compile(r"^\[(?P<at>[\d:.T-]+)\] CPUs=\d+ Boards=\d+ ", re.MULTILINE)
"""The line with the node's resources, which slurmd logs when it sends them to slurmctld."""


def registered_at(slurm: SlurmCluster, node: str) -> datetime | None:
    """Time of the node's first registration with slurmctld; None when its log is missing or does not have it."""
    try:
        log = (slurm.log_dir / f"{node}.log").read_text(errors="replace")
    except FileNotFoundError:
        return None
    found = _REGISTERS.search(log)
    return datetime.fromisoformat(found["at"]).replace(tzinfo=UTC) if found else None
