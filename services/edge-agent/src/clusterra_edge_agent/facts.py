"""What an edge knows besides its workers, for heartbeats: the port to it."""

from dataclasses import dataclass
from typing import Protocol

from clusterra_contracts.heartbeat import Node, NodeClaim, Price, Stuck

from clusterra_edge_agent.changes import Changes


@dataclass(frozen=True, slots=True)
class Facts:
    """All of this moment. None is what cannot be known now, or what this edge has no such thing of; empty is none."""

    stuck: tuple[Stuck, ...] | None = None
    nodes: tuple[Node, ...] | None = None
    node_claims: tuple[NodeClaim, ...] | None = None
    prices: tuple[Price, ...] | None = None


class FactSource(Protocol):
    """Workers do not depend on it: whatever becomes of it, they are listed and kept as desired."""

    @property
    def changes(self) -> Changes:
        """Tells when `facts` has another answer for another reason than a change of the workers."""

    async def run(self) -> None:
        """Learn what there is, until cancelled."""

    def facts(self) -> Facts:
        """What is known now."""
