"""Assigns each worker a TCP port of its own."""

import socket
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

from clusterra_contracts.identity import Moment, now
from pydantic import BaseModel, ConfigDict, Field

from clusterra_edge_agent.substrate import state_files


class _Last(BaseModel):
    """The last assigned port, and when it was assigned."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    port: int
    assigned_at: Annotated[Moment, Field(alias="given_at")]


class Ports:
    """Assigns the ports of a range in turn, also across restarts.

    slurmctld reaches a node by its port and accepts whoever answers there as that node. While Slurm still has the
    record of a removed worker, a new worker on the same port would be sent its jobs.
    """

    def __init__(self, ports: range, file: Path) -> None:
        """Raises state_files.StateUnreadable."""
        self.all = ports
        self._file = file
        self._last = state_files.read(file, _Last)

    def record_assignment(self, port: int, assigned_at: Moment) -> None:
        """Records a port that an earlier agent assigned."""
        if self._last is None or assigned_at > self._last.assigned_at:
            self._last = _Last(port=port, assigned_at=assigned_at)

    def next_free(self, taken: Collection[int]) -> int | None:
        """Returns the next port that is not in `taken` and on which nobody listens, or None when there is none."""
        after = self._last.port + 1 if self._last and self._last.port in self.all else self.all.start
        for step in range(len(self.all)):
            port = self.all[(after - self.all.start + step) % len(self.all)]
            if port not in taken and _bindable(port):
                self._last = _Last(port=port, assigned_at=now())
                return port
        return None

    def save(self) -> None:
        """Stores the last assigned port. Call it before the record of that port's worker is deleted. Raises OSError."""
        if self._last is not None:
            state_files.write(self._file, self._last)


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        # As slurmd does: only a port with a listener is refused.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
