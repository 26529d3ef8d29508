"""Requests on nodes: list, drain, undrain, set down, set Extra, delete."""

from collections.abc import Iterator
from contextlib import contextmanager

from clusterra_contracts.identity import now
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm_nodes import (
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
    """List all nodes by name."""
    if cluster.nodes_fresh:
        records = tuple(cluster.nodes.values())
    else:
        listed = await cluster.slurmctld.nodes(cluster.mint.operator_token())
        records = listed[0] if listed else ()
    return NodePage(nodes=tuple(_node(record) for record in sorted(records, key=lambda record: record.name)))


async def drain(cluster: Cluster, request: Drain) -> Drained:
    """Drain a node and verify it. An existing drain, also another person's, is left unchanged.

    Raises NotFound, and Conflict when the node is not drained although Slurm accepted the update.
    """
    token = cluster.mint.operator_token()
    record = await cluster.slurmctld.node(token, request.node)
    if not record.draining:
        reason = f"{DRAIN_REASON_PREFIX}{request.reason}"
        with _as_administrator(cluster):
            await cluster.slurmctld.update_node(token, request.node, ["DRAIN"], reason)
        record = await cluster.slurmctld.node(token, request.node)
    # Taken after the last read: only a node observed idle after this time stays idle.
    accepted_at = now()
    cluster.observe_node(record, request.node)
    if not record.draining:
        raise Conflict(f"node {request.node} is not drained, although Slurm accepted the update", hint="try again")
    return Drained(accepted_at=accepted_at)


async def undrain(cluster: Cluster, request: Undrain) -> Done:
    """Undrain a node. Succeeds for a node that is not drained.

    Raises NotFound, and Conflict for a drain that Clusterra did not start.
    """
    token = cluster.mint.operator_token()
    record = await cluster.slurmctld.node(token, request.node)
    if not record.draining:
        return Done()
    if not record.reason.startswith(DRAIN_REASON_PREFIX):
        raise Conflict(
            f"node {request.node} was not drained by Clusterra: {record.reason or 'no reason given'}",
            hint="whoever drained the node must undrain it",
        )
    # Not RESUME: that would also resume a node that is down.
    with _as_administrator(cluster):
        await cluster.slurmctld.update_node(token, request.node, ["UNDRAIN"])
    record = await cluster.slurmctld.node(token, request.node)
    cluster.observe_node(record, request.node)
    if record.draining:
        raise Conflict(f"node {request.node} is still drained, although Slurm accepted the update", hint="try again")
    return Done()


async def down(cluster: Cluster, request: Down) -> Done:
    """Set a node down, so that Slurm requeues its jobs. Succeeds for a node that is down or does not exist."""
    token = cluster.mint.operator_token()
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
    """Set a node's Extra. Raises NotFound, and Rejected when it is not JSON."""
    token = cluster.mint.operator_token()
    record = await cluster.slurmctld.node(token, request.node)
    if record.extra != request.extra:
        with _as_administrator(cluster):
            await cluster.slurmctld.set_extra(token, request.node, request.extra)
        record = await cluster.slurmctld.node(token, request.node)
    cluster.observe_node(record, request.node)
    return Done()


async def delete_node(cluster: Cluster, request: DeleteNode) -> Done:
    """Delete a dynamic node. Succeeds for a node that does not exist. Raises Conflict while it is busy."""
    token = cluster.mint.operator_token()
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
            hint=f"changing nodes requires AdminLevel=Administrator in slurmdbd, not only Operator: set it for {name}",
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
