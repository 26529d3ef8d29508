"""What happened to nodes, told once each: found by comparing records with what was told before."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.events import NodeFact, NodeKind

from clusterra_proxy.slurmrestd.records import NodeRecord
from clusterra_proxy.watch.event_queue import PendingEvent

_UNREGISTERED = frozenset({"DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE"})


@dataclass
class _Published:
    """The versions of what was told of a node and still holds. A registration's is the start of its slurmd."""

    registered: str = ""
    drained: str = ""
    down: str = ""


class PublishedNodeEvents:
    """Per node, what was told. Versions come from Slurm's own times, so they are the same after a restart of ours."""

    def __init__(self) -> None:
        self._published: dict[str, _Published] = {}

    def add(self, node: str, version: str, kind: str) -> None:
        """Take what was told before; in the order in which it was."""
        published = self._published.setdefault(node, _Published())
        match kind:
            case "node.registered":
                published.registered, published.down = version, ""
            case "node.drained":
                published.drained = version
            case "node.undrained":
                published.drained = ""
            case "node.down":
                published.down = version
            case "node.removed":
                del self._published[node]

    def take_removed(self, listed: Iterable[str], at: datetime) -> tuple[PendingEvent[NodeFact], ...]:
        """What follows from a full list of the nodes' names: who was told of and is gone."""
        gone = ((name, self._published.pop(name).registered) for name in self._published.keys() - set(listed))
        return tuple(
            PendingEvent(NodeFact(kind="node.removed", node=name), version, at) for name, version in gone if version
        )

    def take_unpublished(self, node: NodeRecord, at: datetime) -> tuple[PendingEvent[NodeFact], ...]:
        """What a record says that was not told; it counts as told from now on."""
        published = self._published.setdefault(node.name, _Published())
        pending: list[PendingEvent[NodeFact]] = []

        def publish(kind: NodeKind, version: str, time: datetime | None) -> None:
            fact = NodeFact(kind=kind, node=node.name, states=node.state, reason=node.reason)
            pending.append(PendingEvent(fact, version, time or at))

        started = _version(node.slurmd_start_time)
        if started and started != published.registered and not _UNREGISTERED & set(node.state):
            published.registered, published.down = started, ""
            publish("node.registered", started, node.slurmd_start_time)
        if node.draining and not published.drained:
            published.drained = _version(node.reason_changed_at) or _version(at)
            publish("node.drained", published.drained, node.reason_changed_at)
        elif not node.draining and published.drained:
            publish("node.undrained", published.drained, at)
            published.drained = ""
        if "DOWN" in node.state and not published.down:
            published.down = _version(node.reason_changed_at) or _version(at)
            publish("node.down", published.down, node.reason_changed_at)
        elif "DOWN" not in node.state:
            published.down = ""
        return tuple(pending)


def _version(moment: datetime | None) -> str:
    return str(int(moment.timestamp())) if moment else ""
