"""What the steps of a job cost: slurmdbd's steps and the ledger's costs, put together, and the route that tells it.

At each moment a step pays its **dominant share** of the run's allocation: the largest of its parts of the CPUs, memory
and GPUs. Where the shares of parallel steps add up to more than the whole run, each pays in proportion to its share.
What no step pays is the remainder: the batch script, and what no step used.

The cost of a run counts as even over the run's time. With `S(t)` the sum of the shares at a moment, a step with the
share `s` has the part `s * integral of 1 / max(S, 1)` over its own time, of the run's whole time. So the parts of all
steps never add up to more than the whole, and the amounts and the remainder are the cost exactly.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, Moment
from clusterra_contracts.rpc.costs import RunCosts
from clusterra_contracts.rpc.slurm import Job
from clusterra_contracts.rpc.slurm_steps import Allocation, JobStep, JobSteps, RunSteps

from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.http.answers.responses import Money, ResponseBody, json_response, money
from clusterra_gateway.http.requests.parameters import JOB_ID, job_id
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

_SCALE = 2**64
"""Weighted time is counted in this many parts of a time unit, as integers: sums of fractions would grow without end."""


@dataclass(frozen=True, slots=True)
class StepUse:
    """A step's share of its run (0 to 1), and its time, in the unit and from the origin of the run's own times."""

    share: Fraction
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Split:
    """Whole micro-USD of the steps in their order, and of the remainder. Together they are what was split."""

    steps: tuple[int, ...]
    remainder: int


def share_of(step: Allocation, run: Allocation) -> Fraction:
    """Return the dominant share of a run that a step has; 0 if Slurm tells nothing of what it has."""
    parts = ((step.cpus, run.cpus), (step.memory_mib, run.memory_mib), (step.gpus, run.gpus))
    return min(Fraction(1), max((Fraction(has, of) for has, of in parts if of > 0), default=Fraction(0)))


def split(micro_usd: int, start: int, end: int, steps: Sequence[StepUse]) -> Split:
    """Split the cost of a run from `start` to `end` among its steps. A step counts within the run's time only."""
    elapsed = end - start
    if elapsed <= 0:
        return Split((0,) * len(steps), micro_usd)
    clipped = [StepUse(each.share, max(each.start, start), min(each.end, end)) for each in steps]
    weighted = _weighted_time(clipped)
    parts = [
        each.share.numerator * (weighted[each.end] - weighted[each.start]) // each.share.denominator
        if each.end > each.start
        else 0
        for each in clipped
    ]
    whole = elapsed * _SCALE
    amounts = _rounded(micro_usd, [*parts, whole - sum(parts)], whole)
    return Split(tuple(amounts[:-1]), amounts[-1])


def _weighted_time(steps: Sequence[StepUse]) -> dict[int, int]:
    """Return at each start and end the time so far, in which a moment counts by 1 / max(S, 1), rounded down."""
    changes: dict[int, Fraction] = {}
    for each in steps:
        if each.end > each.start:
            changes[each.start] = changes.get(each.start, Fraction(0)) + each.share
            changes[each.end] = changes.get(each.end, Fraction(0)) - each.share
    weighted, total, at, passed = dict[int, int](), Fraction(0), 0, 0
    for moment in sorted(changes):
        whole = max(total, Fraction(1))
        passed += (moment - at) * _SCALE * whole.denominator // whole.numerator if weighted else 0
        weighted[moment] = passed
        total, at = total + changes[moment], moment
    return weighted


def _rounded(amount: int, parts: Sequence[int], whole: int) -> list[int]:
    """Split a whole amount in proportion to parts that add up to `whole` (the largest-remainder method)."""
    rounded = [amount * part // whole for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda n: (-(amount * parts[n] % whole), n))
    for number in by_remainder[: amount - sum(rounded)]:
        rounded[number] += 1
    return rounded


api = cluster_routes(JOB_ID, reads=Needs("jobs:read"))


class StepCost(ResponseBody):
    """A step that `srun` started, and its part of its job's cost."""

    job_id: str
    """The job; for an array, the task."""
    step_id: str
    """Its number in the job, such as `0`."""
    name: str
    state: str
    """As in Slurm, such as `COMPLETED`."""
    started_at: Moment
    ended_at: Moment | None
    """Null while it runs."""
    nodes: int
    cpus: int
    memory_mib: int
    gpus: int
    cost: Money | None
    """Null: no price is known, or the ledger does not know the run yet."""


class JobCostReport(ResponseBody):
    """What a job cost, with all its runs, until `as_of`. The steps and the remainder are the total, exactly."""

    cluster_id: str
    job_id: str
    total: Money | None
    """Null while it is unknown. A job that has not started costs nothing."""
    remainder: Money | None
    """What no step of the list pays: the batch script, and the part of the allocation that no step used."""
    steps: tuple[StepCost, ...]
    """In the order of their starts, run by run."""
    complete: bool
    """Whether all steps are in the list, of 1,000 at most. What the others used is in the remainder."""
    as_of: Moment
    stale: bool
    """Whether the edge had not confirmed the price for a part of the time."""
    unknown: bool
    """Whether no price is known for a part of the time. The amounts do not contain it."""


class JobStepCosts:
    """The handler of a job's costs by step."""

    def __init__(self, slurm: SlurmRequests, ledger: LedgerRequests) -> None:
        self._slurm = slurm
        self._ledger = ledger

    @api.get("jobs_costs", f"{CLUSTER}/jobs/{{job_id}}/costs", result=JobCostReport)
    async def read(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns what a job cost, by the steps that `srun` started in it.

        Over its own time a step pays its dominant share of the job's allocation: the largest of its parts of the CPUs,
        memory and GPUs. Where the shares of parallel steps add up to more than the job, each pays in proportion. What
        no step pays is the `remainder`. For an array, these are the steps of all its tasks.
        """
        wanted = job_id(request)
        # It is `not_found` for whoever may not see the job.
        job = await self._slurm.job(ref, caller.viewer, wanted)
        steps, costs = await asyncio.gather(
            self._slurm.steps(ref, caller.viewer, wanted), self._ledger.runs(ref, caller.viewer, wanted)
        )
        return json_response(await asyncio.to_thread(report, ref, job, steps, costs))


def report(ref: ClusterRef, job: Job, steps: JobSteps, costs: RunCosts) -> JobCostReport:
    """Put together what slurmdbd and the ledger tell of a job. A run is the same in both by its job and its start."""
    # A job that runs already may be new to the ledger.
    missing = costs.job.runs == 0 and job.started_at is not None
    total = None if missing else costs.job.micro_usd
    known = {(each.job_id, each.started_at.replace(microsecond=0)): each.micro_usd for each in costs.runs}
    entries = [
        (run, step, amount)
        for run in steps.runs
        for step, amount in _of_run(run, known.get((run.job_id, run.started_at)), costs.job.as_of)
    ]
    paid = sum(amount for _, _, amount in entries if amount is not None)
    return JobCostReport(
        cluster_id=ref.cluster,
        job_id=job.job_id,
        total=money(total),
        remainder=None if total is None else money(total - paid),
        steps=tuple(_entry(run, step, amount) for run, step, amount in entries),
        complete=steps.complete,
        as_of=costs.job.as_of,
        stale=costs.job.stale,
        unknown=costs.job.unknown or missing,
    )


def _of_run(run: RunSteps, micro_usd: int | None, as_of: Moment) -> Iterator[tuple[JobStep, int | None]]:
    """Yield the steps of a run, each with its part of the run's cost."""
    if micro_usd is None:
        yield from ((step, None) for step in run.steps)
        return
    end = _seconds(run.ended_at or as_of)
    uses = [
        StepUse(
            share_of(step.allocation, run.allocation),
            _seconds(step.started_at),
            end if step.ended_at is None else _seconds(step.ended_at),
        )
        for step in run.steps
    ]
    yield from zip(run.steps, split(micro_usd, _seconds(run.started_at), end, uses).steps, strict=True)


def _seconds(moment: Moment) -> int:
    # Slurm tells whole seconds.
    return int(moment.timestamp())


def _entry(run: RunSteps, step: JobStep, micro_usd: int | None) -> StepCost:
    return StepCost.showing(step, job_id=run.job_id, cost=money(micro_usd), **dict(step.allocation))
