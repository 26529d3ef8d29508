"""Derives node events by comparing node records with the published events, each once."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.events import MachineSize, NodeFact, NodeKind
from clusterra_contracts.gres import gpu_count_of, gres_counts

from clusterra_proxy.slurmrestd.records import NodeRecord
from clusterra_proxy.watch.event_queue import PendingEvent

_UNREGISTERED = frozenset({"DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE"})


@dataclass
class _Published:
    """The versions of a node's published events that still hold. A registration's is the start time of its slurmd."""

    registered: str = ""
    drained: str = ""
    down: str = ""


class PublishedNodeEvents:
    """The published events by node. Versions are Slurm's own times, so they survive a restart of the proxy."""

    def __init__(self) -> None:
        self._published: dict[str, _Published] = {}

    def add(self, node: str, version: str, kind: str) -> None:
        """Record an event as published. Call in the order of publication."""
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
        """Return the events of nodes that are missing in a full list of names, and record them as published."""
        missing = ((name, self._published.pop(name).registered) for name in self._published.keys() - set(listed))
        return tuple(
            PendingEvent(NodeFact(kind="node.removed", node=name), version, at) for name, version in missing if version
        )

    def take_unpublished(self, node: NodeRecord, at: datetime) -> tuple[PendingEvent[NodeFact], ...]:
        """Return the events that a record proves and that are not published, and record them as published."""
        if "state" in node.unreadable:
            return ()
        published = self._published.setdefault(node.name, _Published())
        pending: list[PendingEvent[NodeFact]] = []

        def append(kind: NodeKind, version: str, time: datetime | None) -> None:
            fact = NodeFact(kind=kind, node=node.name, states=node.state, reason=node.reason, size=_size(node))
            # A worker's clock may be ahead.
            pending.append(PendingEvent(fact, version, min(time or at, at)))

        started = _version(node.slurmd_start_time)
        if started and started != published.registered and not _UNREGISTERED & set(node.state):
            published.registered, published.down = started, ""
            append("node.registered", started, node.slurmd_start_time)
        if node.draining and not published.drained:
            published.drained = _version(node.reason_changed_at) or _version(at)
            append("node.drained", published.drained, node.reason_changed_at)
        elif not node.draining and published.drained:
            append("node.undrained", published.drained, at)
            published.drained = ""
        if "DOWN" in node.state and not published.down:
            published.down = _version(node.reason_changed_at) or _version(at)
            append("node.down", published.down, node.reason_changed_at)
        elif "DOWN" not in node.state:
            published.down = ""
        return tuple(pending)


def _size(node: NodeRecord) -> MachineSize | None:
    if node.unreadable:
        return None
    return MachineSize(cpus=node.cpus, memory_mib=node.real_memory, gpus=gpu_count_of(gres_counts(node.gres)))


def _version(moment: datetime | None) -> str:
    return str(int(moment.timestamp())) if moment else ""
