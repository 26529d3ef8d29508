"""The facts that a site's records prove. A job's are those, with those ids, that the proxy would tell of the job."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.events import (
    JOB_END_OF_STATE,
    JOB_ENDS,
    Event,
    JobFact,
    JobKind,
    MachineFact,
    MachineKind,
    event_of,
)
from clusterra_contracts.hook_http import INTERRUPTION, JobDetail, MachineEvent, MachineRecord
from clusterra_contracts.identity import ClusterRef, now

SERVICE = "gateway"

_MACHINES: Mapping[str, MachineKind] = {"running": "node.launched", "terminated": "node.terminated"}
"""By the state of an instance. The states between are no events."""


@dataclass(frozen=True, slots=True)
class _Transition:
    kind: JobKind
    job_id: str
    time: datetime


def _transitions(detail: JobDetail) -> list[_Transition]:
    """All that a record proves, in order. An array is submitted once, under its own id."""
    first: _Transition
    if detail.restarts:
        first = _Transition("job.requeued", detail.job_id, detail.submitted_at)
    else:
        first = _Transition("job.submitted", detail.job_id.partition("_")[0], detail.submitted_at)
    found = [first]
    if detail.started_at is not None:
        found.append(_Transition("job.running", detail.job_id, detail.started_at))
    kind = JOB_END_OF_STATE.get(detail.state)
    if kind is not None:
        ended_at = detail.ended_at or detail.started_at or detail.submitted_at
        found.append(_Transition(kind, detail.job_id, ended_at))
    return found


def job_events(ref: ClusterRef, detail: JobDetail) -> list[Event]:
    """The events of a job that its record proves, in order.

    Their ids are derived from the run's submit time and restart count, as the proxy derives them.
    """
    version = f"{int(detail.submitted_at.timestamp())}.{detail.restarts}"
    return [
        event_of(SERVICE, ref, _job_fact(each, detail), version=version, time=min(each.time, now()))
        for each in _transitions(detail)
    ]


def _job_fact(transition: _Transition, detail: JobDetail) -> JobFact:
    ran = transition.kind not in ("job.submitted", "job.requeued")
    over = transition.kind in JOB_ENDS
    started = detail.started_at is not None and ran
    return JobFact(
        kind=transition.kind,
        job_id=transition.job_id,
        name=detail.name,
        user=detail.user,
        uid=detail.uid,
        partition=detail.partition,
        state=detail.state if over else "RUNNING" if ran else "PENDING",
        exit_code=detail.exit_code if over and started else None,
        nodes=detail.nodes if started else (),
        submitted_at=detail.submitted_at,
        started_at=detail.started_at if started else None,
        ended_at=detail.ended_at if over else None,
        restarts=detail.restarts,
        account=detail.account,
    )


def machine_event(ref: ClusterRef, record: MachineRecord) -> Event:
    """The event of a machine's record. A cloud that tells it again names the same time."""
    fact = MachineFact(kind=record.state, node=record.node or record.instance_id, instance=record.instance_id)
    return event_of(SERVICE, ref, fact, version=str(int(record.time.timestamp())), time=min(record.time, now()))


def machine_record(told: MachineEvent) -> MachineRecord | None:
    """The record that an event of a cloud stands for; None for a state that is no event."""
    kind = "node.spot_interrupted" if told.detail_type == INTERRUPTION else _MACHINES.get(told.detail.state)
    if kind is None:
        return None
    return MachineRecord(instance_id=told.detail.instance_id, node=told.detail.node, state=kind, time=told.time)
