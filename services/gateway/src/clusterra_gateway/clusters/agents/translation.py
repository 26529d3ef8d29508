"""Translates between the documented agents' HTTP protocol and the messages of the bus. Pure.

A "documented agent" is one of another make, which follows the published protocol. Our own agent sends its bus message
in the field `heartbeat`, and needs no translation.

A documented agent receives a number of workers for each shape, and removes the workers beyond that number. It removes
all workers of a shape that the reply does not list, and all workers of all shapes when the list is null or missing. So
a reply always lists every shape. Where the central side has no opinion, the reply repeats the number that the agent
has. There is no opinion in these cases:

- there is no desired state, or it has no targets, or none for this shape;
- the desired state is older than the one that the agent has already applied.

A documented agent does not know victims. From version 5 on, it first removes the workers without a node, then those on
nodes that are not protected, then the others. So a reply lowers a shape's number at most by the shape's victims that
still exist and run nothing. A reply that lowers any number protects every node but the nodes of these victims. This
removes exactly the victims as long as the desired state counts every present worker, which the scaler's does. Agents
before version 5 leave the choice to Kubernetes, so their numbers are never lowered.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.agent_http import (
    AgentHeartbeat,
    AgentHeartbeatReply,
    AgentNodeClaim,
    FreeShape,
    ScalingCommand,
)
from clusterra_contracts.gres import GPU, parse_spec
from clusterra_contracts.heartbeat import Applied, Heartbeat, Lifecycle, NodeClaim, Price
from clusterra_contracts.identity import ShapeName
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec

MAX_SNAPSHOT_AGE_SECONDS = 30.0
"""An older snapshot does not say which nodes run jobs now. One is published at least every 5 s."""

_FENCE_WEIGHT = 1024
"""Fences begin at the Unix time in microseconds (`clusterra_runtime.nats.lease`), so versions stay below 2**63 until
the year 2255."""


@dataclass(frozen=True, slots=True)
class CentralState:
    """The central side's knowledge of a cluster."""

    desired: DesiredState | None
    """The last desired state; None when there is none."""
    snapshot: QueueSnapshot | None
    """The last snapshot of the queue; None when it could not be read."""
    specs: Mapping[ShapeName, WorkerSpec]
    """The shapes of the catalogue."""
    now: datetime

    @property
    def desired_version(self) -> int:
        """The version of the desired state; 0 when there is none."""
        return 0 if self.desired is None else version_of(self.desired)

    @property
    def busy(self) -> frozenset[str] | None:
        """Slurm's names of the nodes that run jobs; None when they are not known."""
        if self.snapshot is None or self.snapshot.running is None:
            return None
        if (self.now - self.snapshot.taken_at).total_seconds() > MAX_SNAPSHOT_AGE_SECONDS:
            return None
        return frozenset(name for job in self.snapshot.running for name in job.nodes)


def version_of(desired: DesiredState) -> int:
    """The version of a desired state's commands, below 2**63.

    It rises with every state: generations continue over takeovers and fences never fall. The fence weighs more, so
    that the version also rises when a cluster's record is lost and its generations start again.
    """
    return _FENCE_WEIGHT * desired.fence + desired.generation


def host(node: str) -> str:
    """A node's name without its domain. Kubernetes' names have one, Slurm's do not."""
    return node.partition(".")[0]


FREE_SHAPES_FROM = 5
"""The first major version of agents that take free shapes: the reply describes each shape by its CPUs, memory and GPUs
(`FreeShape`). Older agents have a Deployment for each shape, and the reply names it."""
DEPLOYMENT_PREFIX = "slurmd-"

_LIFECYCLES: Mapping[str, Lifecycle] = {"spot": "spot", "on-demand": "on-demand"}
_MAJOR = re.compile(r"v?([0-9]+)")


def takes_free_shapes(agent_version: str) -> bool:
    """Whether an agent of this version takes free shapes. A version without a number counts as a current build."""
    major = _MAJOR.match(agent_version)
    return major is None or int(major[1]) >= FREE_SHAPES_FROM


def bus_heartbeat(request: AgentHeartbeat, central: CentralState, generation: int) -> Heartbeat:
    """An agent's heartbeat as a message of the bus.

    Documented agents do not name their workers, so `workers` is null (not known) unless there are none.
    """
    if request.heartbeat is not None:
        return request.heartbeat
    no_nodes = request.k8s_nodes == ()
    no_workers = no_nodes and not any(pods.count for pods in (request.capacity_pods or {}).values())
    return Heartbeat(
        generation=generation,
        sent_at=central.now,
        agent_version=request.agent_version,
        substrate="kubernetes",
        applied=_applied(request, central),
        workers=() if no_workers else None,
        nodes=() if no_nodes else None,
        node_claims=None if request.nodeclaims is None else tuple(map(_node_claim, request.nodeclaims)),
        prices=None if request.prices is None else _prices(request),
    )


def _applied(request: AgentHeartbeat, central: CentralState) -> Applied | None:
    desired = central.desired
    if desired is None or request.last_applied_version != central.desired_version:
        return None
    return Applied(generation=desired.generation, fence=desired.fence, applied_at=central.now)


def _node_claim(claim: AgentNodeClaim) -> NodeClaim:
    return NodeClaim(**{**dict(claim), "lifecycle": _LIFECYCLES.get(claim.lifecycle)})


def _prices(request: AgentHeartbeat) -> tuple[Price, ...]:
    return tuple(
        Price(**{**dict(price), "lifecycle": _LIFECYCLES[price.lifecycle]})
        for price in request.prices or ()
        if price.lifecycle in _LIFECYCLES
    )


def http_reply(request: AgentHeartbeat, central: CentralState) -> AgentHeartbeatReply:
    """The reply to an agent's heartbeat, without the Slurm key."""
    known_version = central.desired_version
    desired = central.desired if known_version >= request.last_applied_version else None
    targets = {target.shape: target for target in (desired.targets if desired else None) or ()}
    free_shapes = takes_free_shapes(request.agent_version)
    removable = _removable(request, central, targets) if free_shapes else {}
    present = _present(request, free_shapes)
    falls = False
    commands = []
    for shape in sorted(present.keys() | targets.keys()):
        replicas = present[shape]
        if target := targets.get(shape):
            replicas = max(target.replicas, replicas - len(removable.get(shape, ())))
        falls = falls or replicas < present[shape]
        spec = target.worker if target else central.specs.get(shape)
        commands.append(
            ScalingCommand(name=shape, replicas=replicas, shape=_free_shape(spec))
            if free_shapes
            else ScalingCommand(name=f"{DEPLOYMENT_PREFIX}{shape}", replicas=replicas, shape=shape)
        )
    unprotected = frozenset(name for names in removable.values() for name in names) if falls else None
    return AgentHeartbeatReply(
        scaling_commands=None if request.heartbeat else tuple(commands),
        # Never below the agent's own version: the agent would take that for a central side that lost its memory.
        scaling_commands_version=max(known_version, request.last_applied_version),
        protected_nodes=tuple(sorted(_protected(request, central, unprotected))),
        desired=central.desired if request.heartbeat else None,
    )


def _present(request: AgentHeartbeat, free_shapes: bool) -> Counter[str]:
    """The number of workers that the agent has of each shape."""
    present: Counter[str] = Counter()
    for name, pods in (request.capacity_pods or {}).items():
        present[name if free_shapes else name.removeprefix(DEPLOYMENT_PREFIX)] += pods.count
    return present


def _removable(
    request: AgentHeartbeat, central: CentralState, targets: Mapping[ShapeName, ShapeTarget]
) -> dict[ShapeName, frozenset[str]]:
    """By shape, the Kubernetes nodes of victims that are still there and certainly run nothing."""
    busy = central.busy
    if busy is None or request.k8s_nodes is None:
        return {}
    running = frozenset(map(host, busy))
    return {
        shape: frozenset(
            node for node in request.k8s_nodes if host(node) in target.victims and host(node) not in running
        )
        for shape, target in targets.items()
    }


def _protected(request: AgentHeartbeat, central: CentralState, unprotected: frozenset[str] | None) -> frozenset[str]:
    """The nodes to protect.

    These are the nodes that run jobs; all known nodes when that is not known; and, where `unprotected` is given, all
    known nodes but those.
    """
    nodes = frozenset(request.k8s_nodes or ())
    nodes |= {claim.node_name for claim in request.nodeclaims or () if claim.node_name}
    nodes |= {node.name for node in (central.snapshot.nodes if central.snapshot else None) or ()}
    if own := request.heartbeat:
        nodes |= {worker.name for worker in own.workers or ()} | {node.name for node in own.nodes or ()}
    busy = central.busy
    if busy is None:
        return nodes
    running = frozenset(map(host, busy))
    others = frozenset() if unprotected is None else nodes - unprotected
    return others | busy | {node for node in nodes if host(node) in running}


def _free_shape(spec: WorkerSpec | None) -> FreeShape:
    if spec is None:
        # The catalogue does not have this shape, so its workers are only counted. Should one of its pods vanish just
        # now, the agent's replacement asks for nothing and fits any machine, so that no machine is bought for it.
        return FreeShape(arch="arm64", vcpus=0, mem_gib=0)
    gpus = {name: count for name, count in parse_spec(spec.gres).items() if name.partition(":")[0] == GPU}
    return FreeShape(
        arch=spec.architecture,
        vcpus=spec.cpus,
        mem_gib=math.ceil(spec.memory_mib / 1024),
        gpu_count=sum(gpus.values()),
        gpu_model=next((name.partition(":")[2] for name in gpus), ""),
    )
