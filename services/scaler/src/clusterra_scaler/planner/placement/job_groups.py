"""Turns demands into groups for the packing: equal jobs, their estimated run time, and the shapes they may run on."""

from collections.abc import Iterable, Mapping

from clusterra_contracts.constraints import parse
from clusterra_contracts.identity import JobId, ShapeName
from clusterra_contracts.queue import RunningJob
from clusterra_contracts.shape_fit import GpuShapes
from clusterra_contracts.shapes import Catalogue, WorkerSpec

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.estimates.run_history import MIB_PER_GIB, RunHistory, RunTimeReader, traits_of_running
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.requests.demand import Demand

BOOT_SECONDS = 60.0
"""The provisioning latency that is assumed before the first observation."""
SECONDS_PER_HOUR = 3600.0


def is_packable(demand: Demand) -> bool:
    """Whether the packing models all that the jobs request. First fit serves the others, such as jobs with GPUs."""
    if len(demand.parts) > 1:
        return False
    need = demand.parts[0].need
    return not (need.gres or need.unreadable or need.node or need.excluded_nodes or need.exclusive_uid is not None)


def offerings_of(catalogue: Catalogue, latency: ProvisioningLatency) -> list[Offering]:
    """The offerings of a catalogue, the cheapest first.

    A shape that never booted is expected to boot as the others do. Were it expected to take longer or less, jobs would
    get a shape for what is known of it, and not for its size and price.
    """
    learned = {shape.name: latency.typical_seconds(shape.name) for shape in catalogue.shapes}
    offerings = [
        offering_of(
            shape.name,
            shape.worker,
            shape.usd_per_hour,
            BOOT_SECONDS if (seconds := learned[shape.name]) is None else seconds,
        )
        for shape in catalogue.shapes
    ]
    return sorted(offerings, key=lambda each: (each.usd_per_second, each.shape))


def offering_of(shape: ShapeName, spec: WorkerSpec, usd_per_hour: float, boot_seconds: float = 0.0) -> Offering:
    """A shape of new workers, or of existing ones, whose boot is over."""
    return Offering(
        shape=shape,
        cpus=spec.cpus,
        memory_gib=spec.memory_mib / MIB_PER_GIB,
        usd_per_second=usd_per_hour / SECONDS_PER_HOUR,
        boot_seconds=boot_seconds,
    )


class JobGroups:
    """Makes groups of demands and of running jobs."""

    def __init__(
        self, history: RunHistory | RunTimeReader, specs: Mapping[ShapeName, WorkerSpec], gpu_shapes: GpuShapes
    ) -> None:
        """`specs` are all shapes that existing and new workers may have."""
        self._history = history
        self._specs = specs
        self._gpu_shapes = gpu_shapes
        self._allowed: dict[str, frozenset[ShapeName] | None] = {} if gpu_shapes.names else {"": None}

    def group(self, demand: Demand, job_ids: Iterable[JobId], nodes: int) -> Group:
        """The group of the jobs with these ids, on `nodes` nodes each."""
        need = demand.parts[0].need
        return Group(
            job_ids=tuple(job_ids),
            cpus=need.cpus,
            memory_gib=need.memory_mib / MIB_PER_GIB,
            remaining=self._history.of_pending(demand),
            nodes=nodes,
            exclusive=need.exclusive,
            shapes=self._shapes(need.constraint),
            owner=fair_share_owner(demand.uid),
        )

    def running(self, job: RunningJob) -> Group:
        """The group of a running job, as at its start. The snapshot does not tell its constraints."""
        traits = traits_of_running(job)
        return Group(
            job_ids=(job.job_id,),
            cpus=traits.cpus,
            memory_gib=traits.memory_gib,
            remaining=self._history.of_running(job, job.started_at.timestamp()),
        )

    def _shapes(self, constraint: str) -> frozenset[ShapeName] | None:
        if constraint not in self._allowed:
            allows = parse(constraint)
            specs, excluded_shapes = self._specs.items(), self._gpu_shapes.excluded_by_constraint(constraint)
            self._allowed[constraint] = frozenset(
                shape for shape, spec in specs if shape not in excluded_shapes and allows(spec.features)
            )
        return self._allowed[constraint]


class NodeShares:
    """One node's share of each job, made on demand."""

    def __init__(self, demands: Iterable[Demand], job_groups: JobGroups) -> None:
        self._job_groups = job_groups
        self._demands = {job_id: demand for demand in demands for job_id in demand.job_ids}
        self._made: dict[JobId, Group] = {}
        """By the first job id of the demand."""

    def of(self, job_id: JobId) -> Group | None:
        """The share as a group of one job; None for a job that is not among the demands."""
        demand = self._demands.get(job_id)
        if demand is None:
            return None
        first = demand.job_ids[0]
        if first not in self._made:
            self._made[first] = self._job_groups.group(demand, (first,), 1)
        return self._made[first]


def fair_share_owner(uid: int) -> str:
    """The owner of a user's jobs in the fair share."""
    return str(uid)


def unbooked_job_ids(demand: Demand, booked: Mapping[JobId, int]) -> list[JobId]:
    """The ids of the jobs without a booking, in queue order. An array's id stands once for each of its tasks.

    `booked` counts booked node shares by job.
    """
    nodes = demand.nodes
    skipped = {job_id: shares // nodes for job_id in demand.job_ids if (shares := booked.get(job_id, 0)) >= nodes}
    if not skipped and demand.count == len(demand.job_ids):
        return list(demand.job_ids)
    left = demand.count - sum(skipped.values())
    if left <= 0:
        return []
    free: list[JobId] = []
    for job_id in [demand.job_ids[0]] * (demand.count - len(demand.job_ids)) + list(demand.job_ids[: demand.count]):
        if skipped.get(job_id, 0) > 0:
            skipped[job_id] -= 1
        else:
            free.append(job_id)
    # Some booked jobs may run elsewhere by now; their equals then use the booked workers.
    return free[:left]
