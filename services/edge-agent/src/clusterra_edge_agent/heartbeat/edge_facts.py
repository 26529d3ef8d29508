"""What an edge knows besides its workers, for heartbeats: the port to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from clusterra_contracts.heartbeat import Node, NodeClaim, Price, Stuck
from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.substrate.changes import Changes


@dataclass(frozen=True, slots=True)
class Facts:
    """All of this moment. None is what cannot be known now, or what this edge has no such thing of; empty is none."""

    stuck: tuple[Stuck, ...] | None = None
    nodes: tuple[Node, ...] | None = None
    node_claims: tuple[NodeClaim, ...] | None = None
    prices: tuple[Price, ...] | None = None
    leave_by: Mapping[WorkerName, datetime] = field(default_factory=dict)
    """Workers whose machine will be taken away, and by when."""


class FactSource(Protocol):
    """Workers do not depend on it: whatever becomes of it, they are listed and kept as desired."""

    @property
    def changes(self) -> Changes:
        """Tells when `facts` has another answer for another reason than a change of the workers."""

    async def run(self) -> None:
        """Learn what there is, until cancelled."""

    def facts(self) -> Facts:
        """What is known now."""
