"""TCP ports for workers, one each."""

import socket
from collections.abc import Collection
from pathlib import Path

from clusterra_contracts.identity import Moment, now
from pydantic import BaseModel, ConfigDict

from clusterra_edge_agent.substrate import state_files as state


class _Last(BaseModel):
    """The port that was given last, and when."""

    model_config = ConfigDict(frozen=True)

    port: int
    given_at: Moment


class Ports:
    """Gives the ports of a range in turn, also over restarts.

    slurmctld reaches a node by its port and takes whoever answers there for that node: as long as it has the record
    of a worker that is gone, a new one at the same port would be sent its jobs.
    """

    def __init__(self, ports: range, file: Path) -> None:
        """Raises state.StateUnreadable."""
        self.all = ports
        self._file = file
        self._last = state.read(file, _Last)

    def given(self, port: int, given_at: Moment) -> None:
        """An earlier agent gave this port."""
        if self._last is None or given_at > self._last.given_at:
            self._last = _Last(port=port, given_at=given_at)

    def free(self, taken: Collection[int]) -> int | None:
        """The next port that is not taken and that nobody else listens on; None when there is none."""
        after = self._last.port + 1 if self._last and self._last.port in self.all else self.all.start
        for step in range(len(self.all)):
            port = self.all[(after - self.all.start + step) % len(self.all)]
            if port not in taken and _bindable(port):
                self._last = _Last(port=port, given_at=now())
                return port
        return None

    def keep(self) -> None:
        """Write down which port was the last, before the record of the worker that has it may go. Raises OSError."""
        if self._last is not None:
            state.write(self._file, self._last)


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        # slurmd sets it too: only a port that somebody listens on is refused.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
