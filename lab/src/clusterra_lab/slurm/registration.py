"""When a worker registered: slurmctld tells it in whole seconds, slurmd's own log in milliseconds."""

import re
from datetime import UTC, datetime

from clusterra_lab.slurm.control_plane import SlurmCluster

_REGISTERS = re.compile(r"^\[(?P<at>[\d:.T-]+)\] CPUs=\d+ Boards=\d+ ", re.MULTILINE)
"""slurmd writes what it has at the moment it sends that to slurmctld."""


def registered_at(slurm: SlurmCluster, node: str) -> datetime | None:
    """When a node's slurmd first told slurmctld what it has; None when its log does not say, or is gone."""
    try:
        log = (slurm.log_dir / f"{node}.log").read_text(errors="replace")
    except FileNotFoundError:
        return None
    found = _REGISTERS.search(log)
    return datetime.fromisoformat(found["at"]).replace(tzinfo=UTC) if found else None
