"""Explains one job from the last decision that had a complete queue."""

from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.alternatives import Alternatives
from clusterra_contracts.identity import JobId
from clusterra_contracts.job_states import SUSPENDED
from clusterra_contracts.queue import PendingJobs, RunningJob
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.why import Explanation, JobPlace
from clusterra_contracts.shape_fit import new_workers

from clusterra_scaler.explain.alternatives import Offered, for_running, for_waiting
from clusterra_scaler.explain.blocking import cause_of, cause_text, moment_text
from clusterra_scaler.explain.forecast import Forecast, is_job_or_task, waiting_groups
from clusterra_scaler.explain.purchases import PurchaseHistory
from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import shape_of
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.requests.demand import demand_of
from clusterra_scaler.planner.requests.job_costs import JobCosts

NAMED_PLACES = 100
"""Maximum number of workers that an explanation names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationInputs:
    """A decision, its observation, and what earlier decisions bought."""

    observation: Observation
    state: FleetState
    plan: Plan
    offered: Offered
    latency: ProvisioningLatency
    purchases: PurchaseHistory
    shadow: bool = False
    unreadable_since: datetime | None = None
    """When the first incomplete snapshot after this decision was taken; None if there was none."""


def explanation(job_id: JobId, viewer: Viewer, inputs: ExplanationInputs, at: datetime) -> Explanation | None:
    """Explain a job, a task or an array; None if there is none, or none that the viewer may see.

    A pending task is explained by the one record that Slurm keeps for all pending tasks of its array.
    """
    snapshot = inputs.observation.snapshot
    running = [job for job in snapshot.running or () if is_job_or_task(job_id, job.job_id)]
    pending = waiting_groups(job_id, snapshot.pending or ())
    if not pending and not running:
        pending = [group for group in snapshot.pending or () if _has_task(group, job_id)][:1]
    uids = {group.uid for group in pending} | {job.uid for job in running}
    if not uids or not all(viewer.sees(uid) for uid in uids):
        return None
    if pending:
        return _of_pending(job_id, pending, running, inputs, at)
    return _of_running(job_id, running, inputs)


def _has_task(group: PendingJobs, job_id: JobId) -> bool:
    """Whether a task is pending. Without a list of its array's pending tasks any task of the array may be."""
    array, _, task = job_id.partition("_")
    if not task or array not in group.job_ids:
        return False
    ranges = group.array_tasks.get(array)
    return ranges is None or any(first <= int(task) <= last for first, last in ranges)


def _of_pending(
    job_id: JobId, groups: list[PendingJobs], running: list[RunningJob], inputs: ExplanationInputs, at: datetime
) -> Explanation:
    observation, plan = inputs.observation, inputs.plan
    blocked = [group for group in groups if cause_of(group, at) not in ("nodes", "fitting node")]
    explained = blocked[0] if blocked else groups[0]
    cause = cause_of(explained, at)
    demand = demand_of(groups, new_workers(observation.binding.catalogue))
    forecast = Forecast.of(groups, demand, plan, shadow=inputs.shadow)
    alternatives: Alternatives = ()
    sentences = [f"{len(running)} of its tasks {'is' if len(running) == 1 else 'are'} running."] if running else []
    other_partitions = [
        group.partition for group in groups if observation.binding.partition not in group.partition.split(",")
    ]
    if blocked:
        sentences += [cause_text(explained, at), "No worker is bought for it."]
    elif observation.binding.state == "paused":
        sentences.append("The cluster is paused: no worker is bought, and it can start on present workers only.")
    elif other_partitions:
        sentences.append(
            f"Workers are bought only for the partition {observation.binding.partition}, not for {other_partitions[0]}."
        )
    elif demand.count == 0:
        cause = "throttle"
        sentences.append("Its array already runs as many tasks at once as its limit allows.")
    else:
        sentences.append(forecast.text(observation, at))
        alternatives = for_waiting(groups, forecast, plan, inputs.offered)
    return Explanation(
        job_id=job_id,
        state="pending",
        reason=explained.reason,
        cause=cause,
        text=_with_caveats(sentences, inputs),
        places=tuple(
            JobPlace(kind=place.kind, worker=place.worker or None, shape=place.shape or None)
            for place in forecast.places[:NAMED_PLACES]
        ),
        bought=inputs.purchases.last(demand.job_ids),
        expected_start=forecast.expected_start(observation, inputs.latency, at),
        usd_per_hour=forecast.usd_per_hour(observation.binding.catalogue.shapes),
        alternatives=alternatives,
        shadow=inputs.shadow,
        generation=inputs.state.generation,
        snapshot_generation=observation.snapshot.generation,
        as_of=observation.snapshot.taken_at,
    )


def _of_running(job_id: JobId, running: list[RunningJob], inputs: ExplanationInputs) -> Explanation:
    observation = inputs.observation
    specs = {shape.name: shape.worker for shape in observation.binding.catalogue.shapes}
    shapes = {node.name: shape_of(node, specs) for node in observation.snapshot.nodes or ()}
    names = list(dict.fromkeys(name for job in running for name in job.nodes))
    started_at = min(job.started_at for job in running)
    nodes = names[0] if len(names) == 1 else f"{len(names)} nodes"
    if len(running) == 1:
        text = f"It has been running on {nodes} since {moment_text(started_at)}."
    else:
        text = f"{len(running)} of its tasks are running on {nodes}, the first since {moment_text(started_at)}."
    suspended = sum(job.suspended for job in running)
    if suspended and len(running) == 1:
        text = f"It is suspended on {nodes}, where it started at {moment_text(started_at)}: its processes are stopped."
    elif suspended:
        text += f" {suspended} of them {'is' if suspended == 1 else 'are'} suspended."
    return Explanation(
        job_id=job_id,
        state="running",
        reason=SUSPENDED if suspended == len(running) else "",
        text=_with_caveats([text], inputs),
        places=tuple(
            JobPlace(kind="node", worker=name, shape=shapes.get(name) or None) for name in names[:NAMED_PLACES]
        ),
        bought=inputs.purchases.last([job.job_id for job in running]),
        started_at=started_at,
        usd_per_hour=sum(map(JobCosts(observation.snapshot, observation.binding).usd_per_hour, running)),
        alternatives=for_running(running[0], shapes, inputs.offered),
        shadow=inputs.shadow,
        generation=inputs.state.generation,
        snapshot_generation=observation.snapshot.generation,
        as_of=observation.snapshot.taken_at,
    )


def _with_caveats(sentences: list[str], inputs: ExplanationInputs) -> str:
    if inputs.shadow:
        sentences = [*sentences, "The scaler is in shadow mode: it decides but changes nothing."]
    if inputs.unreadable_since is not None:
        since = moment_text(inputs.unreadable_since)
        sentences = [*sentences, f"The queue has been unreadable since {since}: this is what was known before."]
    return " ".join(sentences)
