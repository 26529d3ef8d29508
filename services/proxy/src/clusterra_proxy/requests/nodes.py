"""Nodes: reading, draining, giving back, taking for gone, closing to some jobs, forgetting."""

from collections.abc import Iterator
from contextlib import contextmanager

from clusterra_contracts.identity import now
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm import (
    DRAIN_REASON_PREFIX,
    DeleteNode,
    Down,
    Drain,
    Drained,
    ListNodes,
    Node,
    NodePage,
    SetExtra,
    Undrain,
)

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import Conflict, Forbidden, NotFound
from clusterra_proxy.slurmrestd.records import NodeRecord


async def list_nodes(cluster: Cluster, _request: ListNodes) -> NodePage:
    """All nodes by name."""
    if cluster.nodes_fresh:
        records = tuple(cluster.nodes.values())
    else:
        listed = await cluster.slurmctld.nodes(cluster.mint.operator())
        records = listed[0] if listed else ()
    return NodePage(nodes=tuple(_node(record) for record in sorted(records, key=lambda record: record.name)))


async def drain(cluster: Cluster, request: Drain) -> Drained:
    """Drain a node and see it drained. A drain that stands already, also somebody else's, is left as it is.

    Raises NotFound, and Conflict when Slurm accepts the order and the node is not drained.
    """
    token = cluster.mint.operator()
    record = await cluster.slurmctld.node(token, request.node)
    if not record.draining:
        reason = f"{DRAIN_REASON_PREFIX}{request.reason}"
        with _as_administrator(cluster):
            await cluster.slurmctld.update_node(token, request.node, ["DRAIN"], reason)
        record = await cluster.slurmctld.node(token, request.node)
    # Not before: only what is seen idle after this moment stays idle.
    accepted_at = now()
    cluster.observe_node(record, request.node)
    if not record.draining:
        raise Conflict(f"node {request.node} is not drained, though Slurm took the order", hint="try again")
    return Drained(accepted_at=accepted_at)


async def undrain(cluster: Cluster, request: Undrain) -> Done:
    """Give a node back to work; one that is not drained is as it should be.

    Raises NotFound, and Conflict for a drain that is not ours.
    """
    token = cluster.mint.operator()
    record = await cluster.slurmctld.node(token, request.node)
    if not record.draining:
        return Done()
    if not record.reason.startswith(DRAIN_REASON_PREFIX):
        raise Conflict(
            f"node {request.node} was drained by somebody else: {record.reason or 'no reason given'}",
            hint="whoever drained it must give it back",
        )
    # Not RESUME: that would also bring back a node that is down.
    with _as_administrator(cluster):
        await cluster.slurmctld.update_node(token, request.node, ["UNDRAIN"])
    record = await cluster.slurmctld.node(token, request.node)
    cluster.observe_node(record, request.node)
    if record.draining:
        raise Conflict(f"node {request.node} is still drained, though Slurm took the order", hint="try again")
    return Done()


async def down(cluster: Cluster, request: Down) -> Done:
    """Take a node for gone, so that Slurm queues its jobs again; one that is down or not there is as it should be."""
    token = cluster.mint.operator()
    try:
        record = await cluster.slurmctld.node(token, request.node)
        if "DOWN" not in record.state:
            with _as_administrator(cluster):
                await cluster.slurmctld.update_node(
                    token, request.node, ["DOWN"], f"{DRAIN_REASON_PREFIX}{request.reason}"
                )
            record = await cluster.slurmctld.node(token, request.node)
    except NotFound:
        cluster.observe_node(None, request.node)
        return Done()
    cluster.observe_node(record, request.node)
    return Done()


async def set_extra(cluster: Cluster, request: SetExtra) -> Done:
    """Have a node's Extra say what it is to say. Raises NotFound, and Rejected for what is no JSON."""
    token = cluster.mint.operator()
    record = await cluster.slurmctld.node(token, request.node)
    if record.extra != request.extra:
        with _as_administrator(cluster):
            await cluster.slurmctld.set_extra(token, request.node, request.extra)
        record = await cluster.slurmctld.node(token, request.node)
    cluster.observe_node(record, request.node)
    return Done()


async def delete_node(cluster: Cluster, request: DeleteNode) -> Done:
    """Forget a dynamic node; one that does not exist is as it should be. Raises Conflict while it is busy."""
    token = cluster.mint.operator()
    try:
        record = await cluster.slurmctld.node(token, request.node)
    except NotFound:
        cluster.observe_node(None, request.node)
        return Done()
    if record.busy:
        raise Conflict(
            f"node {request.node} is {'+'.join(record.state)}", hint="drain the node and wait until it is idle"
        )
    with _as_administrator(cluster):
        await cluster.slurmctld.delete_node(token, request.node)
    cluster.observe_node(None, request.node)
    return Done()


@contextmanager
def _as_administrator(cluster: Cluster) -> Iterator[None]:
    try:
        yield
    except Forbidden as error:
        name = cluster.binding.operator.name
        raise Forbidden(
            error.error.detail,
            hint=f"changing nodes takes slurmdbd's AdminLevel=Administrator, Operator is not enough: give it to {name}",
            code=error.error.code,
        ) from error


def _node(record: NodeRecord) -> Node:
    return Node(
        name=record.name,
        states=record.state,
        cpus=record.cpus,
        cpus_allocated=record.alloc_cpus,
        memory_mib=record.real_memory,
        features=record.features,
        reason=record.reason,
    )
