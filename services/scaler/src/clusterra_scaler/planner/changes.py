"""What a decision changes, shape by shape, and the reasons for people."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from clusterra_contracts.events import ShapeChange
from clusterra_contracts.identity import JobId, ShapeName, WorkerName
from clusterra_contracts.scale import ShapeTarget

from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.scale_down.drain import ScaleDown

_SPELT_OUT = 5


@dataclass(frozen=True, slots=True)
class ChangeCauses:
    """The results of a decision that explain its changes."""

    plan: Plan | None
    scale_down: ScaleDown
    recovered: Collection[WorkerName]
    """Workers that were named as unregistered and are part of the supply again."""
    taken_back: Collection[WorkerName]
    """Victims that Slurm shows not drained, or busy."""
    capacity: Mapping[ShapeName, str]
    """By shape, which open breakers have a part in its change."""


def changes_of(state: FleetState, targets: Sequence[ShapeTarget], causes: ChangeCauses) -> tuple[ShapeChange, ...]:
    """The changes from the last decision's state to these targets."""
    planned, scale_down, recovered = causes.plan, causes.scale_down, causes.recovered
    changes = []
    for target in targets:
        recorded = state.target(target.shape)
        if recorded == target:
            continue
        before = recorded or ShapeTarget(shape=target.shape, worker=target.worker, replicas=0)
        named = (*target.victims, *target.unregistered)
        named_before = (*before.victims, *before.unregistered)
        reasons = _Reasons(
            bought=planned.new.get(target.shape, 0) - planned.warm.get(target.shape, 0) if planned else 0,
            warm=planned.warm.get(target.shape, 0) if planned else 0,
            jobs=planned.jobs.get(target.shape, ()) if planned else (),
            drained=tuple(name for name in named if name in scale_down.victims - scale_down.drained_by_slurm.keys()),
            drained_by_slurm={
                name: scale_down.drained_by_slurm[name] for name in named if name in scale_down.drained_by_slurm
            },
            overdue_workers={
                name: scale_down.overdue_workers[name].reason for name in named if name in scale_down.overdue_workers
            },
            recovered=tuple(name for name in named_before if name in recovered),
            taken_back=tuple(name for name in named_before if name in causes.taken_back),
            gone=tuple(name for name in named_before if name in scale_down.forgotten),
            capacity=causes.capacity.get(target.shape, ""),
        )
        changes.append(
            ShapeChange(
                shape=target.shape,
                replicas_before=before.replicas,
                replicas_after=target.replicas,
                victims=(*reasons.drained, *reasons.drained_by_slurm, *reasons.overdue_workers),
                reason=reasons.in_words(target.replicas - before.replicas),
                job_ids=reasons.jobs,
            )
        )
    return tuple(changes)


@dataclass(frozen=True, slots=True)
class _Reasons:
    """Everything that led to the change of one shape."""

    bought: int
    """New workers for jobs."""
    warm: int
    """New workers for the warm pool."""
    jobs: Sequence[JobId]
    drained: tuple[WorkerName, ...]
    drained_by_slurm: Mapping[WorkerName, str]
    overdue_workers: Mapping[WorkerName, str]
    recovered: tuple[WorkerName, ...]
    taken_back: tuple[WorkerName, ...]
    gone: tuple[WorkerName, ...]
    capacity: str

    def in_words(self, more: int) -> str:
        """The reasons as one sentence. `more`: the number of additional replicas, negative for fewer."""
        parts = []
        if self.bought:
            parts.append(
                f"{self.bought} more for pending {'job' if len(self.jobs) == 1 else 'jobs'} {_names(self.jobs)}"
            )
        if self.warm:
            parts.append(f"{self.warm} more to stand warm")
        if self.drained:
            parts.append(f"{_names(self.drained)} drained and idle")
        for reason, names in _by_reason(self.drained_by_slurm):
            parts.append(f"{_names(names)} drained by Slurm ({reason}) and idle")
        for reason, names in _by_reason(self.overdue_workers):
            parts.append(f"{_names(names)} {reason}")
        if self.recovered:
            parts.append(f"{_names(self.recovered)} there after all")
        if self.taken_back:
            parts.append(f"{_names(self.taken_back)} kept: not drained or busy in Slurm")
        leaving = len(self.drained) + len(self.drained_by_slurm) + len(self.overdue_workers)
        unexplained = more - self.bought - self.warm + leaving
        if unexplained < 0:
            parts.append(f"{-unexplained} ordered or lost and not needed any more")
        if unexplained > 0:
            parts.append(f"{unexplained} there that had not been counted")
        if self.capacity and (self.bought or unexplained < 0):
            parts.append(self.capacity)
        if self.gone:
            parts.append(f"{_names(self.gone)} gone")
        return "; ".join(parts) or "the catalogue describes it differently now"


def _by_reason(workers: Mapping[WorkerName, str]) -> Iterator[tuple[str, list[WorkerName]]]:
    for reason in dict.fromkeys(workers.values()):
        yield reason, [name for name, each in workers.items() if each == reason]


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SPELT_OUT])
    return shown if len(names) <= _SPELT_OUT else f"{shown} and {len(names) - _SPELT_OUT} others"
