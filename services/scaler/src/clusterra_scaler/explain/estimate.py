"""Estimates a job before it is submitted: decides with it as if it waited last in the queue. Pure functions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from clusterra_contracts.alternatives import Alternatives
from clusterra_contracts.identity import ShapeName
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.estimate import ESTIMATED_JOB_ID, Estimate, EstimatedWorkers, EstimateJob, Wait
from clusterra_contracts.rpc.why import Cause
from clusterra_contracts.shape_fit import new_workers

from clusterra_scaler.explain.alternatives import Offered, for_waiting
from clusterra_scaler.explain.blocking import cause_of, cause_text
from clusterra_scaler.explain.forecast import Forecast
from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.packing_policy import LONGEST_GATHER_SECONDS
from clusterra_scaler.planner.placement.plan import AT_QUOTA, Plan
from clusterra_scaler.planner.requests.demand import demand_of

PLANNED_TASKS = 1000
"""How many tasks of an array are planned at most."""
NAMED_SHAPES = 20
"""How many kinds of workers an estimate names at most."""

_BOOTING = frozenset({"booting", "ordered", "new"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateInputs:
    """A decision's inputs, and the state that the next decision would start from."""

    observation: Observation
    state: FleetState
    observation_history: ObservationHistory
    run_history: RunHistory
    plan: Plan
    """The decision's own, without the job."""
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class _Trial:
    """The forecast for the job, and how many workers of each shape would be bought because of it."""

    forecast: Forecast
    bought: Mapping[ShapeName, int]
    alternatives: Alternatives = ()


def estimate(request: EstimateJob, inputs: EstimateInputs, at: datetime) -> Estimate:
    """Estimate a job. Its tasks beyond `PLANNED_TASKS` count as waiting for those before them."""
    observation, job = inputs.observation, request.job
    groups = (job, *request.components)
    planned = tuple(_planned(group, observation) for group in groups)
    blocked, cause = _cause(groups, observation, at)
    queued = priced = _trial(planned, (*(observation.snapshot.pending or ()), *planned), inputs)
    forecast = queued.forecast
    ready = _ready(queued, inputs, at)
    wait = _wait(forecast, ready, at)
    if observation.binding.state == "paused":
        wait = "paused"
    if not forecast.places:
        priced = _without_quota(planned, inputs)
    first, last = _starts(forecast, ready, complete=planned[0].count == job.count == request.tasks)
    if cause is not None:
        wait = "cause"
        first, last = _not_before(blocked.begins_at, first, last) if cause == "time" else (None, None)
    return Estimate(
        wait=wait,
        cause=cause,
        text=_text(wait, blocked, forecast, inputs, at),
        workers=_workers(priced),
        nodes=forecast.demand.nodes,
        expected_start=first,
        expected_last_start=last,
        usd_per_hour=_usd_per_hour(priced.forecast, observation),
        alternatives=() if wait == "paused" else queued.alternatives,
        limit_seconds=_longest(groups),
        tasks=request.tasks,
        shadow=inputs.shadow,
        snapshot_generation=observation.snapshot.generation,
        as_of=observation.snapshot.taken_at,
    )


def _longest(groups: Sequence[PendingJobs]) -> float | None:
    """The longest time limit; None where one has none."""
    limits = [group.time_limit_seconds for group in groups if group.time_limit_seconds is not None]
    return max(limits) if len(limits) == len(groups) else None


def _planned(job: PendingJobs, observation: Observation) -> PendingJobs:
    """The job as if it waited for nodes alone, and had waited until workers are bought for several jobs together."""
    return job.model_copy(
        update={
            "job_ids": (ESTIMATED_JOB_ID,),
            "array_tasks": {},
            "count": max(min(job.count, PLANNED_TASKS), 1),
            "reason": "Resources",
            "held": False,
            "dependent": False,
            "begins_at": None,
            "reservation": "",
            "first_submitted_at": observation.now - _gathering(observation),
        }
    )


def _gathering(observation: Observation) -> timedelta:
    """How long jobs wait so that workers are bought for several of them together."""
    policy = observation.binding.policy
    seconds = policy.gather_seconds if policy.name == "packing" else 0.0
    return timedelta(seconds=min(seconds, LONGEST_GATHER_SECONDS))


def _ready(trial: _Trial, inputs: EstimateInputs, at: datetime) -> tuple[datetime | None, ...]:
    """When each place is ready. A worker that is bought because of the job is ordered only after the gathering."""
    observation, places = inputs.observation, trial.forecast.places
    latency = inputs.observation_history.registrations.latency
    ready = trial.forecast.ready_times(observation, latency, at)
    waits = [trial.bought.get(place.shape, 0) > 0 and not place.worker for place in places]
    gathering = _gathering(observation)
    return tuple(
        moment + gathering if moment is not None and later else moment
        for moment, later in zip(ready, waits, strict=True)
    )


def _trial(planned: Sequence[PendingJobs], pending: Sequence[PendingJobs], inputs: EstimateInputs) -> _Trial:
    observation = inputs.observation
    snapshot = observation.snapshot.model_copy(update={"pending": tuple(pending)})
    with_job = replace(observation, snapshot=snapshot)
    decision = decide(with_job, inputs.state, inputs.observation_history, inputs.run_history)
    plan, offered = decision.plan, Offered.of(decision, observation.binding, inputs.run_history)
    demand = demand_of(planned, new_workers(observation.binding.catalogue))
    if plan is None or offered is None:
        return _Trial(Forecast(planned, demand, ()), {})
    unmet = tuple(each for each in plan.unmet if each.demand.job_ids[0] == ESTIMATED_JOB_ID)
    forecast = Forecast(planned, demand, plan.places.get(ESTIMATED_JOB_ID, ()), unmet)
    bought = {shape: count - _coming(inputs.plan)[shape] for shape, count in _coming(plan).items()}
    return _Trial(forecast, bought, for_waiting(planned, forecast, plan, offered))


def _coming(plan: Plan) -> Counter[ShapeName]:
    """The workers of a plan that have no name yet."""
    return Counter(plan.ordered) + Counter(plan.new)


def _without_quota(planned: Sequence[PendingJobs], inputs: EstimateInputs) -> _Trial:
    """The trial of one task that waits alone, in an active cluster that may buy its nodes."""
    observation = inputs.observation
    policy = observation.binding.policy
    nodes = demand_of(planned, new_workers(observation.binding.catalogue)).nodes
    most = {shape: count + nodes for shape, count in policy.most.items() if count}
    generous = policy.model_copy(
        update={"max_workers": policy.max_workers + nodes, "usd_per_hour": None, "most": policy.most | most}
    )
    binding = observation.binding.model_copy(update={"policy": generous, "state": "active"})
    alone = tuple(group.model_copy(update={"count": 1}) for group in planned)
    nothing = replace(inputs.plan, ordered={}, new={})
    return _trial(alone, alone, replace(inputs, observation=replace(observation, binding=binding), plan=nothing))


def _cause(groups: Sequence[PendingJobs], observation: Observation, at: datetime) -> tuple[PendingJobs, Cause | None]:
    """What the job would wait for besides workers, and the first component that would; the first one for no cause."""
    for group in groups:
        cause = cause_of(group, at)
        if cause not in ("nodes", "fitting node"):
            return group, cause
        if observation.binding.partition not in group.partition.split(","):
            return group, "partition"
    return groups[0], None


def _wait(forecast: Forecast, ready: Sequence[datetime | None], at: datetime) -> Wait:
    if forecast.unmet:
        return "quota" if all(each.reason == AT_QUOTA for each in forecast.unmet) else "shape"
    if not forecast.places:
        return "unknown"
    if any(place.kind in _BOOTING for place in forecast.places):
        return "boot"
    return "nothing" if all(moment is not None and moment <= at for moment in ready) else "jobs"


def _starts(
    forecast: Forecast, ready: Sequence[datetime | None], *, complete: bool
) -> tuple[datetime | None, datetime | None]:
    """When the first and the last task should start. A job on several nodes starts when the last of them is ready."""
    known = [moment for moment in ready if moment is not None]
    if not known:
        return None, None
    last = max(known) if len(known) == len(ready) and not forecast.unmet else None
    return (min(known) if forecast.demand.nodes == 1 else last), last if complete else None


def _not_before(
    begins_at: datetime | None, first: datetime | None, last: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """The starts of a job that may begin later; unknown where only Slurm knows when."""
    if begins_at is None:
        return None, None
    return first and max(first, begins_at), last and max(last, begins_at)


def _usd_per_hour(forecast: Forecast, observation: Observation) -> float | None:
    shapes = observation.binding.catalogue.shapes
    names = {shape.name for shape in shapes}
    return forecast.usd_per_hour(shapes) if any(place.shape in names for place in forecast.places) else None


def _workers(trial: _Trial) -> tuple[EstimatedWorkers, ...]:
    """The workers by kind and shape. A plan does not tell how many of the workers without a name a job would use."""
    named = Counter((place.kind, place.shape) for place in trial.forecast.places if place.worker)
    found = [EstimatedWorkers(kind=kind, shape=shape or None, count=n) for (kind, shape), n in named.most_common()]
    for shape in dict.fromkeys(place.shape for place in trial.forecast.places if not place.worker):
        bought = trial.bought.get(shape, 0)
        found.append(
            EstimatedWorkers(kind="new", shape=shape, count=bought)
            if bought > 0
            else EstimatedWorkers(kind="ordered", shape=shape)
        )
    return tuple(found[:NAMED_SHAPES])


def _text(wait: Wait, job: PendingJobs, forecast: Forecast, inputs: EstimateInputs, at: datetime) -> str:
    subject = "It" if job.count == 1 else "Its tasks"
    match wait:
        case "nothing":
            text = f"{subject} would start at once, on workers that run already."
        case "boot":
            shapes = " and ".join(dict.fromkeys(place.shape for place in forecast.places if place.kind in _BOOTING))
            text = f"{subject} would wait until workers of the shape {shapes} have started."
        case "jobs":
            text = f"{subject} would wait for capacity on workers that are busy now."
        case "quota" | "shape":
            some = "no worker" if not forecast.places else "no worker for some of its tasks"
            text = f"{subject} would get {some} now: {forecast.unmet[0].reason}."
        case "paused":
            text = "The cluster is paused: no worker would be bought."
        case "cause":
            ours = inputs.observation.binding.partition
            in_ours = ours in job.partition.split(",")
            others = f"Workers are bought only for the partition {ours}, not for {job.partition}."
            text = cause_text(job, at) if in_ours else others
        case "unknown":
            text = "The scaler cannot tell on which workers it would run."
    return f"{text} The scaler is in shadow mode: it decides but changes nothing." if inputs.shadow else text
