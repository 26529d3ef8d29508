"""What happened to nodes, told once each: found by comparing records with what was told before."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.events import NodeFact, NodeKind

from clusterra_proxy.slurmrestd.records import NodeRecord

_GONE = frozenset({"DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE"})


@dataclass(frozen=True)
class NodeOccurrence:
    """A fact with what makes its event."""

    fact: NodeFact
    version: str
    time: datetime


@dataclass
class _Told:
    """The versions of what was told of a node and still holds. A registration's is the start of its slurmd."""

    registered: str = ""
    drained: str = ""
    down: str = ""


class NodeHistory:
    """Per node, what was told. Versions come from Slurm's own times, so they are the same after a restart of ours."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def learn(self, node: str, kind: str, version: str) -> None:
        """Take what was told before; in the order in which it was."""
        told = self._told.setdefault(node, _Told())
        match kind:
            case "node.registered":
                told.registered, told.down = version, ""
            case "node.drained":
                told.drained = version
            case "node.undrained":
                told.drained = ""
            case "node.down":
                told.down = version
            case "node.removed":
                del self._told[node]

    def removed(self, listed: Iterable[str], at: datetime) -> tuple[NodeOccurrence, ...]:
        """What follows from a full list of the nodes' names: who was told of and is gone."""
        gone = ((name, self._told.pop(name).registered) for name in self._told.keys() - set(listed))
        return tuple(
            NodeOccurrence(NodeFact(kind="node.removed", node=name), version, at) for name, version in gone if version
        )

    def news(self, node: NodeRecord, at: datetime) -> tuple[NodeOccurrence, ...]:
        """What a record says that was not told; it counts as told from now on."""
        told = self._told.setdefault(node.name, _Told())
        new: list[NodeOccurrence] = []

        def tell(kind: NodeKind, version: str, time: datetime | None) -> None:
            fact = NodeFact(kind=kind, node=node.name, states=node.state, reason=node.reason)
            new.append(NodeOccurrence(fact, version, time or at))

        started = _version(node.slurmd_start_time)
        if started and started != told.registered and not _GONE & set(node.state):
            told.registered, told.down = started, ""
            tell("node.registered", started, node.slurmd_start_time)
        if node.draining and not told.drained:
            told.drained = _version(node.reason_changed_at) or _version(at)
            tell("node.drained", told.drained, node.reason_changed_at)
        elif not node.draining and told.drained:
            tell("node.undrained", told.drained, at)
            told.drained = ""
        if "DOWN" in node.state and not told.down:
            told.down = _version(node.reason_changed_at) or _version(at)
            tell("node.down", told.down, node.reason_changed_at)
        elif "DOWN" not in node.state:
            told.down = ""
        return tuple(new)


def _version(moment: datetime | None) -> str:
    return str(int(moment.timestamp())) if moment else ""
