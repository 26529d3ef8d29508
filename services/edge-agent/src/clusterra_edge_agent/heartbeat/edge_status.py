"""The port to the status of an edge besides its workers, for heartbeats."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from clusterra_contracts.heartbeat import Node, NodeClaim, Price, Stuck
from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.substrate.change_signal import ChangeSignal


@dataclass(frozen=True, slots=True)
class EdgeStatus:
    """The status at one moment. None: unknown now, or this edge has no such thing. Empty: known to be none."""

    stuck: tuple[Stuck, ...] | None = None
    nodes: tuple[Node, ...] | None = None
    node_claims: tuple[NodeClaim, ...] | None = None
    prices: tuple[Price, ...] | None = None
    interruptions: Mapping[WorkerName, datetime] = field(default_factory=dict)
    """Workers whose machine will be taken away, and by when."""


class EdgeStatusSource(Protocol):
    """Provides the edge's status. Workers do not depend on it: without it they are still listed and kept as desired."""

    @property
    def change_signal(self) -> ChangeSignal:
        """Notified when `status` changes for another reason than a change of the workers."""

    async def run(self) -> None:
        """Follows the edge, until cancelled."""

    def status(self) -> EdgeStatus:
        """Returns the current status."""
