"""Between the documented agents' words and ours. Pure.

A documented agent is told counts, and removes whatever is beyond them: every shape that is not listed, and on a null or
missing list all there is. So the list always says of every shape how many there shall be, and where there is no
opinion (no desired state, one without targets or without this shape, one older than the agent has carried out) that is
the number it has.

It knows no victims either. From version 5 on it takes workers that have no node yet, then those on nodes that are not
protected, then the others: so a count falls by no more than the shape's victims that are still there and run nothing,
and with such a reply every other node is protected. That is exact as long as the desired state counts every worker that
stands, which the scaler's does. Older agents leave the choice to Kubernetes: their counts never fall.
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
from clusterra_contracts.heartbeat import Applied, Heartbeat, Lifecycle, NodeClaim, Price
from clusterra_contracts.identity import ShapeName
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec

FREE_SHAPES_FROM = 5
"""The first major version that takes free shapes."""
DEPLOYMENT_PREFIX = "slurmd-"
BELIEVED_SECONDS = 30.0
"""A snapshot that is older says no more which nodes run jobs: one is published at least every 5 s."""

_FENCE_WEIGHT = 1024
"""Fences begin at the microseconds of the epoch (`runtime.lease`), so that this is enough until the year 2255."""
_LIFECYCLES: Mapping[str, Lifecycle] = {"spot": "spot", "on-demand": "on-demand"}
_MAJOR = re.compile(r"v?([0-9]+)")
_GPU = re.compile(r"gpu(?::([a-z][a-z0-9_-]*))?(?::([0-9]+))?")


@dataclass(frozen=True, slots=True)
class Central:
    """What is known here of a cluster."""

    desired: DesiredState | None
    """The last desired state; None when there is none."""
    snapshot: QueueSnapshot | None
    """The last look at the queue; None when it could not be read."""
    specs: Mapping[ShapeName, WorkerSpec]
    """The shapes of the catalogue."""
    now: datetime


def version_of(desired: DesiredState) -> int:
    """The version of its commands, below 2**63.

    It rises with every state: generations go on over takeovers and fences never fall. The fence weighs more, so that it
    rises as well when a cluster's record is lost and its generations begin again.
    """
    return _FENCE_WEIGHT * desired.fence + desired.generation


def takes_free_shapes(agent_version: str) -> bool:
    """Whether an agent of this version has capacity pods. One that tells no number is taken for a build of today."""
    major = _MAJOR.match(agent_version)
    return major is None or int(major[1]) >= FREE_SHAPES_FROM


def heartbeat_of(request: AgentHeartbeat, central: Central, generation: int) -> Heartbeat:
    """What an agent has, as the bus tells it.

    A documented agent's workers have no names here, so they are not known (null), except when there are none.
    """
    if request.heartbeat is not None:
        return request.heartbeat
    no_nodes = request.k8s_nodes == ()
    none_at_all = no_nodes and not any(pods.count for pods in (request.capacity_pods or {}).values())
    return Heartbeat(
        generation=generation,
        sent_at=central.now,
        agent_version=request.agent_version,
        substrate="kubernetes",
        applied=_applied(request, central),
        workers=() if none_at_all else None,
        nodes=() if no_nodes else None,
        node_claims=None if request.nodeclaims is None else tuple(map(_claim, request.nodeclaims)),
        prices=None if request.prices is None else _prices(request),
    )


def reply(request: AgentHeartbeat, central: Central) -> AgentHeartbeatReply:
    """What an agent should do; its Slurm key is not looked at."""
    known_version = 0 if central.desired is None else version_of(central.desired)
    desired = central.desired if known_version >= request.last_applied_version else None
    targets = {target.shape: target for target in (desired.targets if desired else None) or ()}
    busy = _busy(central)
    free_shapes = takes_free_shapes(request.agent_version)
    victims = _victims(request, targets, busy) if free_shapes else {}
    lowered = False
    commands = []
    present = _present(request, free_shapes)
    for shape in sorted(present.keys() | targets.keys()):
        replicas = present[shape]
        if target := targets.get(shape):
            replicas = max(target.replicas, replicas - len(victims.get(shape, ())))
        lowered = lowered or replicas < present[shape]
        spec = target.worker if target else central.specs.get(shape)
        commands.append(
            ScalingCommand(name=shape, replicas=replicas, shape=_free_shape(spec))
            if free_shapes
            else ScalingCommand(name=f"{DEPLOYMENT_PREFIX}{shape}", replicas=replicas, shape=shape)
        )
    spared = frozenset(name for names in victims.values() for name in names) if lowered else None
    return AgentHeartbeatReply(
        scaling_commands=None if request.heartbeat else tuple(commands),
        # Never less than the agent has: it would take that for a central that has lost its memory.
        scaling_commands_version=max(known_version, request.last_applied_version),
        protected_nodes=tuple(sorted(_protected(request, central, busy, spared))),
        desired=central.desired if request.heartbeat else None,
    )


def _present(request: AgentHeartbeat, free_shapes: bool) -> Counter[str]:
    present: Counter[str] = Counter()
    for name, pods in (request.capacity_pods or {}).items():
        present[name if free_shapes else name.removeprefix(DEPLOYMENT_PREFIX)] += pods.count
    return present


def _busy(central: Central) -> frozenset[str] | None:
    """Slurm's names of the nodes that run jobs; None when that is not known."""
    snapshot = central.snapshot
    if snapshot is None or snapshot.running is None:
        return None
    if (central.now - snapshot.taken_at).total_seconds() > BELIEVED_SECONDS:
        return None
    return frozenset(name for job in snapshot.running for name in job.nodes)


def _victims(
    request: AgentHeartbeat, targets: Mapping[ShapeName, ShapeTarget], busy: frozenset[str] | None
) -> dict[ShapeName, frozenset[str]]:
    """By shape, the Kubernetes nodes of victims that are there and certainly run nothing."""
    if busy is None or request.k8s_nodes is None:
        return {}
    running = frozenset(map(_host, busy))
    return {
        shape: frozenset(
            node for node in request.k8s_nodes if _host(node) in target.victims and _host(node) not in running
        )
        for shape, target in targets.items()
    }


def _protected(
    request: AgentHeartbeat, central: Central, busy: frozenset[str] | None, spared: frozenset[str] | None
) -> frozenset[str]:
    """Nodes with running jobs; all that are known when those are not; all but `spared` when that is given."""
    nodes = frozenset(request.k8s_nodes or ())
    nodes |= {claim.node_name for claim in request.nodeclaims or () if claim.node_name}
    nodes |= {node.name for node in (central.snapshot.nodes if central.snapshot else None) or ()}
    if own := request.heartbeat:
        nodes |= {worker.name for worker in own.workers or ()} | {node.name for node in own.nodes or ()}
    if busy is None:
        return nodes
    running = frozenset(map(_host, busy))
    held = frozenset() if spared is None else nodes - spared
    return held | busy | {node for node in nodes if _host(node) in running}


def _host(node: str) -> str:
    """A node's name without its domain, which Kubernetes has where Slurm has none."""
    return node.partition(".")[0]


def _free_shape(spec: WorkerSpec | None) -> FreeShape:
    if spec is None:
        # A shape that nobody here knows is only counted. Should one of its pods vanish just now, then what the agent
        # makes instead asks for nothing, on machines of any kind, so that nothing is bought for it.
        return FreeShape(arch="arm64", vcpus=0, mem_gib=0)
    gpu = _GPU.search(spec.gres)
    return FreeShape(
        arch=spec.architecture,
        vcpus=spec.cpus,
        mem_gib=math.ceil(spec.memory_mib / 1024),
        gpu_count=int(gpu[2] or 1) if gpu else 0,
        gpu_model=(gpu[1] or "") if gpu else "",
    )


def _applied(request: AgentHeartbeat, central: Central) -> Applied | None:
    desired = central.desired
    if desired is None or request.last_applied_version != version_of(desired):
        return None
    return Applied(generation=desired.generation, fence=desired.fence, applied_at=central.now)


def _claim(claim: AgentNodeClaim) -> NodeClaim:
    return NodeClaim(**{**dict(claim), "lifecycle": _LIFECYCLES.get(claim.lifecycle)})


def _prices(request: AgentHeartbeat) -> tuple[Price, ...]:
    return tuple(
        Price(
            instance_type=price.instance_type,
            lifecycle=_LIFECYCLES[price.lifecycle],
            zone=price.zone,
            usd_per_hour=price.usd_per_hour,
        )
        for price in request.prices or ()
        if price.lifecycle in _LIFECYCLES
    )
