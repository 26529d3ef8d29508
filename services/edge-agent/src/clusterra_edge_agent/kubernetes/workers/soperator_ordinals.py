"""Plans how the active nodes of a NodeSet of Soperator become the desired ones. Pure.

The active nodes are a list of ordinals. So exactly the victims can be removed from it, whatever the state of other
pods. Therefore:

- Only the ordinals of victims are ever removed, not even those of pods that have not started: Slurm knows all nodes of
  such a NodeSet from the start, and may have assigned a job to one of them.
- An ordinal that somebody else removed is restored while its worker is running.
- Missing workers get the lowest free ordinals: not active, not a victim's, and not of a pod that still exists.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.kubernetes.client.nodesets import PowerState, SoperatorNodeSet
from clusterra_edge_agent.kubernetes.client.resources import Pod


@dataclass(frozen=True, slots=True)
class Ordinals:
    """The planned active nodes."""

    active: tuple[int, ...] | None = None
    """Ordinals to set if the NodeSetPowerState is unchanged; None when it is already as planned."""
    missing: int = 0
    """Number of workers without a free ordinal, until a pod has ended or the NodeSet's replicas are raised."""


def plan(
    nodeset: SoperatorNodeSet,
    power_state: PowerState,
    pods: Sequence[Pod],
    desired: int,
    victims: Collection[WorkerName],
) -> Ordinals:
    """Returns the step from the active nodes and all `pods` of a NodeSet to `desired` workers without the `victims`."""
    named = _ordinals(nodeset, victims)
    present = _ordinals(nodeset, (pod.name for pod in pods))
    working = _ordinals(nodeset, (pod.name for pod in pods if pod.active and pod.started))
    before = set(power_state.spec.active_nodes)
    staying = (before | working) - named
    free = (ordinal for ordinal in range(nodeset.spec.replicas) if ordinal not in staying | named | present)
    wanted = max(desired - len(staying), 0)
    added = set(islice(free, wanted))
    after = staying | added
    return Ordinals(tuple(sorted(after)) if after != before else None, missing=wanted - len(added))


def _ordinals(nodeset: SoperatorNodeSet, workers: Iterable[WorkerName]) -> set[int]:
    return {ordinal for worker in workers if (ordinal := nodeset.ordinal(worker)) is not None}
