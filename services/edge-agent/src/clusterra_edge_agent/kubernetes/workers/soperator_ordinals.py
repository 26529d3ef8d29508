"""How the active nodes of a NodeSet of Soperator become what is desired. Pure.

They are a list of ordinals, so exactly the victims can be taken out of it, whatever state other pods are in. Hence:

- None but the victims' ordinals are ever taken out, not even of pods that have not started: Slurm knows all nodes of
  such a NodeSet from the start, and may have promised one of them to a job.
- An ordinal that somebody else took out is put back as long as nobody has ended its worker.
- Missing workers get the lowest ordinals that are free: neither active, nor a victim's, nor of a pod that still ends.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.kubernetes.client.nodesets import PowerState, SoperatorNodeSet
from clusterra_edge_agent.kubernetes.client.resources import Pod


@dataclass(frozen=True, slots=True)
class Ordinals:
    """What the active nodes should be."""

    active: tuple[int, ...] | None = None
    """To be set only if the NodeSetPowerState is still as it was seen; None when it is as it should be."""
    missing: int = 0
    """Workers for which no ordinal is free, until a pod has ended or the NodeSet's replicas are raised."""


def plan(
    nodeset: SoperatorNodeSet,
    power_state: PowerState,
    pods: Sequence[Pod],
    desired: int,
    victims: Collection[WorkerName],
) -> Ordinals:
    """From active nodes and all `pods` of a NodeSet to `desired` workers without the `victims`."""
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
