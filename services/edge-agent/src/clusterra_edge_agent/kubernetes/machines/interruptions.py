"""Interruptions: which workers are on machines that will be taken away, and by when. Pure.

When a spot machine gets an interruption notice, Karpenter deletes its NodeClaim, and the node is deleted with it. It
does the same when a machine ends for any other reason. Cloud providers give a spot machine two minutes. With another
reason, the workers may have more time. The two cases cannot be distinguished here, so both are reported with two
minutes.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from clusterra_contracts.identity import ShapeName, WorkerName

from clusterra_edge_agent.kubernetes.client.resources import Pod
from clusterra_edge_agent.kubernetes.machines.resources import Node, NodeClaim

INTERRUPTION_NOTICE = timedelta(seconds=120)


def interruptions(
    pods: Mapping[ShapeName, Mapping[WorkerName, Pod]],
    nodes: Iterable[Node] | None,
    claims: Iterable[NodeClaim] | None,
) -> dict[WorkerName, datetime]:
    """Returns the interrupted workers and the moment by which each machine ends. Unknown machines are skipped."""
    ends: dict[str, datetime] = {}
    machines = [(node.name, node) for node in nodes or ()] + [(claim.status.node_name, claim) for claim in claims or ()]
    for node_name, machine in machines:
        deleted_at = machine.metadata.deletion_timestamp
        if node_name and deleted_at is not None:
            ends[node_name] = min(
                deleted_at + INTERRUPTION_NOTICE, ends.get(node_name, deleted_at + INTERRUPTION_NOTICE)
            )
    if not ends:
        return {}
    return {
        name: ends[pod.spec.node_name]
        for pods_of_shape in pods.values()
        for name, pod in pods_of_shape.items()
        if pod.spec.node_name in ends
    }
