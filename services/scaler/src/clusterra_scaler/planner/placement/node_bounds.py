"""How many jobs, and nodes of theirs, a decision plans for, so that no queue makes it endless.

Slurm accepts a constraint such as `[general*2147483647]`, and arrays of a million tasks. A decision models each job and
each of its nodes, so it would need more time and memory than there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.placement.plan import AT_QUOTA, Unmet
from clusterra_scaler.planner.requests.demand import Demand

MAX_NODES = 65_533
"""Of one job: Slurm has no more nodes."""
MAX_PLANNED = 100_000
"""Jobs of one decision, times their nodes. A decision for as many takes four seconds."""
BEYOND = f"the queue asks for more than the {MAX_PLANNED} nodes that are planned for at once"
"""Why a job is not planned for now."""


@dataclass(frozen=True, slots=True)
class LargestFleet:
    """What a cluster could have at most."""

    nodes: int
    cpus_per_node: int

    @classmethod
    def of(cls, observation: Observation) -> "LargestFleet":
        """The nodes that are there now, and as many workers as the policy allows, each of the largest shape."""
        present, binding = observation.snapshot.nodes or (), observation.binding
        cpus = [node.cpus for node in present] + [shape.worker.cpus for shape in binding.catalogue.shapes]
        return cls(min(len(present) + binding.policy.max_workers, MAX_NODES), max(cpus, default=1))

    def jobs(self, demand: Demand) -> int:
        """The most of these jobs that could run at the same time; at least one, as far as CPUs can tell."""
        cpus = max(max(part.need.cpus for part in demand.parts), 1)
        return max(self.nodes * max(self.cpus_per_node // cpus, 1) // demand.nodes, 1)


def plannable(demands: Sequence[Demand], largest: LargestFleet) -> tuple[list[Demand], list[Unmet]]:
    """Return the jobs to plan for, in their order, and those that are not planned for, with the reason.

    Of equal jobs, at most as many are planned for as could run at the same time. Where all together are too many, the
    demands that ask for the least go first.
    """
    unmet: list[Unmet] = []
    counts: dict[int, int] = {}
    for number, demand in enumerate(demands):
        if demand.nodes > max(largest.nodes, 1):
            reason = f"it asks for more nodes ({demand.nodes}) than the cluster may have ({largest.nodes})"
            unmet.append(Unmet(demand, demand.count, reason))
        else:
            counts[number] = min(demand.count, largest.jobs(demand))
            if rest := demand.count - counts[number]:
                unmet.append(Unmet(demand, rest, AT_QUOTA))
    left = MAX_PLANNED
    for number in sorted(counts, key=lambda number: counts[number] * demands[number].nodes):
        demand, asked = demands[number], counts[number]
        counts[number] = min(asked, left // demand.nodes)
        left -= counts[number] * demand.nodes
        if rest := asked - counts[number]:
            unmet.append(Unmet(demand, rest, BEYOND))
    return [
        demands[number] if count == demands[number].count else replace(demands[number], count=count)
        for number, count in counts.items()
        if count
    ], unmet
