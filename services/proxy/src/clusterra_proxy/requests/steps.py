"""Reads the steps of a job from slurmdbd, also while it runs."""

import structlog
from clusterra_contracts.rpc.slurm_steps import MAX_STEP_RUNS, MAX_STEPS, JobStep, JobSteps, ReadSteps, RunSteps

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.step_records import AccountingSteps, StepRecord

log = structlog.get_logger(__name__)


async def read_steps(cluster: Cluster, request: ReadSteps) -> JobSteps:
    """Return the runs of a job with their steps; nothing for a job that the viewer may not see, or that slurmdbd lacks.

    Raises SlurmFailed.
    """
    records = await cluster.accounting.steps(cluster.mint.operator_token(), request.job_id, uid=request.viewer.only_uid)
    # Slurm answers with all components when the first one of a heterogeneous job is asked for.
    own = [each for each in records if each.id == request.job_id or each.id.startswith(f"{request.job_id}_")]
    runs: list[RunSteps] = []
    room, complete = MAX_STEPS, len(own) <= MAX_STEP_RUNS
    for record in own[:MAX_STEP_RUNS]:
        if record.time.start is None:
            continue
        steps, unreadable = record.started_steps()
        if unreadable:
            log.warning("steps_unreadable", job_id=record.id, steps=unreadable)
        complete = complete and not unreadable and len(steps) <= room
        runs.append(_run(record, steps[:room]))
        room -= len(runs[-1].steps)
    return JobSteps(runs=tuple(runs), complete=complete)


def _run(record: AccountingSteps, steps: tuple[StepRecord, ...]) -> RunSteps:
    assert record.time.start is not None  # noqa: S101 - runs that have not started are left out
    return RunSteps(
        job_id=record.id,
        started_at=record.time.start,
        ended_at=record.time.end,
        allocation=record.tres.allocation(),
        steps=tuple(sorted(map(_step, steps), key=lambda each: (each.started_at, len(each.step_id), each.step_id))),
    )


def _step(record: StepRecord) -> JobStep:
    assert record.time.start is not None  # noqa: S101 - steps without a start are left out
    return JobStep(
        step_id=record.number,
        name=record.step.name,
        state=record.state[0],
        started_at=record.time.start,
        ended_at=record.time.end,
        allocation=record.tres.allocation(),
    )
