"""The explanation of one job from the last decision whose lists could all be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import PendingJobs, RunningJob
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.why import Explanation, JobPlace

from clusterra_scaler.explain.outlook import Outlook
from clusterra_scaler.explain.purchases import Purchases
from clusterra_scaler.explain.waiting import moment_text, obstacle, obstacle_text
from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import shape_of
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.placement.shape_choice import new_workers
from clusterra_scaler.planner.requests.demand import demand_of
from clusterra_scaler.planner.requests.job_costs import JobCosts

NAMED_PLACES = 100
"""How many workers an explanation names at most."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """What explanations are made from: a decision, what it was made from, and what came before it."""

    observation: Observation
    state: FleetState
    plan: Plan
    latency: ProvisioningLatency
    purchases: Purchases
    shadow: bool = False
    unreadable_since: datetime | None = None
    """When a later look was taken at which a list could not be read, and none since could."""


def explanation(job_id: JobId, viewer: Viewer, grounds: Grounds, at: datetime) -> Explanation | None:
    """Explain a job, a task or an array; None where there is none that the viewer may see.

    A task that has not started is explained by the record that Slurm has of all such tasks of its array.
    """
    running = [job for job in grounds.observation.snapshot.running or () if _of(job_id, job.job_id)]
    pending = _pending(job_id, grounds.observation.snapshot.pending or ())
    if not pending and not running:
        pending = [group for group in grounds.observation.snapshot.pending or () if _has_task(group, job_id)][:1]
    uids = {group.uid for group in pending} | {job.uid for job in running}
    if not uids or not (viewer.admin or uids == {viewer.user.uid}):
        return None
    if pending:
        return _of_pending(job_id, pending, running, grounds, at)
    return _of_running(job_id, running, grounds)


def _of(job_id: JobId, other: JobId) -> bool:
    """Whether it is the job, or a task of the array."""
    return other == job_id or ("_" not in job_id and other.partition("_")[0] == job_id)


def _has_task(group: PendingJobs, job_id: JobId) -> bool:
    """Whether a task has not started; where nobody tells which have not, any of its array may be one."""
    array, _, task = job_id.partition("_")
    if not task or array not in group.job_ids:
        return False
    rows = group.array_tasks.get(array)
    return rows is None or any(first <= int(task) <= last for first, last in rows)


def _pending(job_id: JobId, pending: Sequence[PendingJobs]) -> list[PendingJobs]:
    """The group that it waits in; of a heterogeneous job those of all its components."""
    found = [group for group in pending if job_id in group.job_ids]
    if not found:
        return [group for group in pending if any(_of(job_id, each) for each in group.job_ids)][:1]
    first = found[0]
    if first.het_job_id is None:
        return found[:1]
    components = (group for group in pending if (group.het_job_id, group.uid) == (first.het_job_id, first.uid))
    return sorted(components, key=lambda group: group.het_offset)


def _of_pending(
    job_id: JobId, groups: list[PendingJobs], running: list[RunningJob], grounds: Grounds, at: datetime
) -> Explanation:
    observation, plan = grounds.observation, grounds.plan
    blocked = [group for group in groups if obstacle(group, at) not in ("nodes", "fitting node")]
    told = blocked[0] if blocked else groups[0]
    cause = obstacle(told, at)
    demand = demand_of(groups, new_workers(observation.binding.catalogue))
    outlook = Outlook(
        groups,
        demand,
        plan.places.get(demand.job_ids[0], ()),
        tuple(unmet for unmet in plan.unmet if unmet.demand.job_ids[0] == demand.job_ids[0]),
        frozenset(shape for shape, count in plan.new.items() if count) if grounds.shadow else frozenset(),
    )
    sentences = [f"{len(running)} of its tasks run already."] if running else []
    others = [group.partition for group in groups if observation.binding.partition not in group.partition.split(",")]
    if blocked:
        sentences += [obstacle_text(told, at), "No worker is bought for it."]
    elif observation.binding.state == "paused":
        sentences.append("The cluster is paused: no workers are bought, and it starts only where there is room.")
    elif others:
        sentences.append(
            f"Workers are bought for the partition {observation.binding.partition} alone, not for {others[0]}."
        )
    elif demand.count == 0:
        cause = "throttle"
        sentences.append("Its array runs as many tasks at once as it allows.")
    else:
        sentences.append(outlook.text(observation, at))
    return Explanation(
        job_id=job_id,
        state="pending",
        reason=told.reason,
        cause=cause,
        text=_told(sentences, grounds),
        places=tuple(
            JobPlace(kind=place.kind, worker=place.worker or None, shape=place.shape or None)
            for place in outlook.places[:NAMED_PLACES]
        ),
        bought=grounds.purchases.last(demand.job_ids),
        expected_start=outlook.expected_start(observation, grounds.latency, at),
        usd_per_hour=outlook.usd_per_hour(observation.binding.catalogue.shapes),
        shadow=grounds.shadow,
        generation=grounds.state.generation,
        snapshot_generation=observation.snapshot.generation,
        as_of=observation.snapshot.taken_at,
    )


def _of_running(job_id: JobId, running: list[RunningJob], grounds: Grounds) -> Explanation:
    observation = grounds.observation
    specs = {shape.name: shape.worker for shape in observation.binding.catalogue.shapes}
    shapes = {node.name: shape_of(node, specs) for node in observation.snapshot.nodes or ()}
    names = list(dict.fromkeys(name for job in running for name in job.nodes))
    started_at = min(job.started_at for job in running)
    on = names[0] if len(names) == 1 else f"{len(names)} nodes"
    what = "It runs" if len(running) == 1 else f"{len(running)} of its tasks run"
    return Explanation(
        job_id=job_id,
        state="running",
        text=_told([f"{what} on {on}, since {moment_text(started_at)}."], grounds),
        places=tuple(
            JobPlace(kind="node", worker=name, shape=shapes.get(name) or None) for name in names[:NAMED_PLACES]
        ),
        bought=grounds.purchases.last([job.job_id for job in running]),
        started_at=started_at,
        usd_per_hour=sum(map(JobCosts(observation.snapshot, observation.binding).usd_per_hour, running)),
        shadow=grounds.shadow,
        generation=grounds.state.generation,
        snapshot_generation=observation.snapshot.generation,
        as_of=observation.snapshot.taken_at,
    )


def _told(sentences: list[str], grounds: Grounds) -> str:
    if grounds.shadow:
        sentences = [*sentences, "The scaler is in shadow mode: it decides and changes nothing."]
    if grounds.unreadable_since is not None:
        since = moment_text(grounds.unreadable_since)
        sentences = [*sentences, f"The queue could not be read since {since}: this is what was known before."]
    return " ".join(sentences)
