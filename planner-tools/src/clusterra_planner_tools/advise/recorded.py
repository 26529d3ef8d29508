"""A job as Slurm's accounting has it, and what is simulated of it."""

import sys
from dataclasses import dataclass
from typing import Literal

from clusterra_contracts.demand import DEFAULT_MEMORY_MIB_PER_CPU

from clusterra_planner_tools.advise.left_out import Counts, LeftOut, NotAJob
from clusterra_planner_tools.simulate.trace import Job

Basis = Literal["requested", "allocated"]
"""Which resources of a job count: those that it asked for, or those that Slurm gave it."""
_MIB_PER_GIB = 1024.0
_MAX_SECONDS = 366 * 86400
"""No job runs longer than a year; what says so was never closed in the database."""
_WAITS = frozenset({"PENDING", "PD", "CONFIGURING", "CF"})
_RUNS = frozenset({"RUNNING", "R", "SUSPENDED", "S", "COMPLETING", "CG"})
NO_MEMORY = f"have no memory in their record, and count with {DEFAULT_MEMORY_MIB_PER_CPU} MiB per CPU"
_NEVER_STARTED = "jobs that never started"


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of a whole job; None where the record has none."""

    cpus: int | None = None
    memory_mib: float | None = None
    memory_per: Literal["job", "cpu", "node"] = "job"
    gpus: int = 0
    gpu_model: str = ""
    """Empty where any model will do."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run of a job. Moments are seconds since 1970; None where the record has none."""

    ident: str
    user: str
    state: str
    submit: float | None
    eligible: float | None
    start: float | None
    end: float | None
    elapsed: float | None
    limit_seconds: float | None
    nodes: int
    requested: Resources
    allocated: Resources


def job_of(record: Recorded, number: int, basis: Basis, counts: Counts) -> Job:
    """The job to simulate. A GPU model becomes its name in `shapes`, see `pools`. Raises LeftOut."""
    run = _run_seconds(record)
    if record.submit is None and record.eligible is None and record.start is None:
        raise LeftOut("no submit time")
    if record.state in _RUNS:
        counts.assumed["still run, and count as far as they have run"] += 1
    asked = record.requested if basis == "requested" else record.allocated
    other = record.allocated if basis == "requested" else record.requested
    cpus = asked.cpus or other.cpus
    if not cpus:
        raise LeftOut("no CPUs")
    nodes = max(1, min(record.nodes, cpus))
    per_node = -(-cpus // nodes)
    gpus, model = (asked.gpus, asked.gpu_model) if asked.gpus else (other.gpus, other.gpu_model)
    arrival = _arrival(record)
    return Job(
        id=number,
        submit=arrival,
        run_seconds=run,
        limit_seconds=record.limit_seconds,
        nodes=nodes,
        cpus=per_node,
        memory_gib=_memory_gib(asked, other, nodes, per_node, counts),
        user=sys.intern(record.user),
        gpus=-(-gpus // nodes),
        shapes=frozenset({model}) if model else None,
        waited=None if record.start is None else max(0.0, record.start - arrival),
    )


def _run_seconds(record: Recorded) -> float:
    """The elapsed time comes first: unlike the difference of local times, it is right when clocks change."""
    if record.state in _WAITS:
        raise NotAJob(_NEVER_STARTED)
    run = record.elapsed
    if run is None:
        if record.start is None:
            raise NotAJob(_NEVER_STARTED)
        if record.end is None:
            raise LeftOut("neither an elapsed time nor an end")
        run = record.end - record.start
        if run < 0:
            raise LeftOut("ends before it starts")
    if run == 0 and (record.start is None or record.state.startswith("CANCELLED")):
        raise NotAJob(_NEVER_STARTED)
    if run > _MAX_SECONDS:
        raise LeftOut("ran for more than a year")
    return max(run, 1.0)


def _arrival(record: Recorded) -> float:
    """When it could have started. A job that waits for another, or is held, becomes eligible later."""
    known = [each for each in (record.submit, record.eligible) if each is not None]
    if record.start is not None:
        # Clocks that change make local times go back.
        return min(max(known, default=record.start), record.start)
    return max(known)


def _memory_gib(asked: Resources, other: Resources, nodes: int, cpus: int, counts: Counts) -> float:
    for each in (asked, other):
        if each.memory_mib:
            share = {"job": 1 / nodes, "cpu": cpus, "node": 1}[each.memory_per]
            return each.memory_mib * share / _MIB_PER_GIB
    counts.assumed[NO_MEMORY] += 1
    return cpus * DEFAULT_MEMORY_MIB_PER_CPU / _MIB_PER_GIB
