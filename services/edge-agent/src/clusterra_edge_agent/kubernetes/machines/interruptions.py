"""Which workers are on machines that will be taken away, and by when. Pure.

Karpenter answers the notice for a spot machine, as all that ends a machine, by deleting its NodeClaim; the node goes
with it. Cloud providers give a spot machine two minutes. Where a machine goes for another reason, its workers may stay
for longer: nothing else is said of that, and they are told alike.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from clusterra_contracts.identity import ShapeName, WorkerName

from clusterra_edge_agent.kubernetes.client.resources import Pod
from clusterra_edge_agent.kubernetes.machines.resources import Node, NodeClaim

NOTICE = timedelta(seconds=120)


def notices(
    pods: Mapping[ShapeName, Mapping[WorkerName, Pod]],
    nodes: Iterable[Node] | None,
    claims: Iterable[NodeClaim] | None,
) -> dict[WorkerName, datetime]:
    """By worker, the moment by which its machine is taken away. What cannot be seen announces nothing."""
    ends: dict[str, datetime] = {}
    machines = [(node.name, node) for node in nodes or ()] + [(claim.status.node_name, claim) for claim in claims or ()]
    for node_name, machine in machines:
        deleted_at = machine.metadata.deletion_timestamp
        if node_name and deleted_at is not None:
            ends[node_name] = min(deleted_at + NOTICE, ends.get(node_name, deleted_at + NOTICE))
    if not ends:
        return {}
    return {
        name: ends[pod.spec.node_name]
        for of_shape in pods.values()
        for name, pod in of_shape.items()
        if pod.spec.node_name in ends
    }
