"""What a decision changes, shape by shape, and in words for a person why."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from clusterra_contracts.events import ShapeChange
from clusterra_contracts.identity import JobId, ShapeName, WorkerName
from clusterra_contracts.scale import ShapeTarget

from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.scale_down.drain import ScaleDown

_SPELT_OUT = 5


def changes_of(
    state: FleetState,
    targets: Sequence[ShapeTarget],
    planned: Plan | None,
    scale_down: ScaleDown,
    recovered: Collection[WorkerName],
    capacity: Mapping[ShapeName, str],
) -> tuple[ShapeChange, ...]:
    """From the last decision's state to these targets; `taken_back` stand again.

    `capacity`: what has a part in it of shapes that cannot be had, in words.
    """
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
            drained=tuple(name for name in named if name in scale_down.victims),
            overdue_workers={
                name: scale_down.overdue_workers[name].reason for name in named if name in scale_down.overdue_workers
            },
            recovered=tuple(name for name in named_before if name in recovered),
            gone=tuple(name for name in named_before if name in scale_down.forgotten),
            capacity=capacity.get(target.shape, ""),
        )
        changes.append(
            ShapeChange(
                shape=target.shape,
                replicas_before=before.replicas,
                replicas_after=target.replicas,
                victims=(*reasons.drained, *reasons.overdue_workers),
                reason=reasons.in_words(target.replicas - before.replicas),
                job_ids=reasons.jobs,
            )
        )
    return tuple(changes)


@dataclass(frozen=True, slots=True)
class _Reasons:
    """All that led to a change of one shape."""

    bought: int
    """For jobs."""
    warm: int
    jobs: Sequence[JobId]
    drained: tuple[WorkerName, ...]
    overdue_workers: Mapping[WorkerName, str]
    recovered: tuple[WorkerName, ...]
    gone: tuple[WorkerName, ...]
    capacity: str

    def in_words(self, more: int) -> str:
        """`more` replicas than before, or fewer where it is negative."""
        parts = []
        if self.bought:
            parts.append(
                f"{self.bought} more for pending {'job' if len(self.jobs) == 1 else 'jobs'} {_names(self.jobs)}"
            )
        if self.warm:
            parts.append(f"{self.warm} more to stand warm")
        if self.drained:
            parts.append(f"{_names(self.drained)} drained and idle")
        for reason in dict.fromkeys(self.overdue_workers.values()):
            parts.append(f"{_names([name for name, each in self.overdue_workers.items() if each == reason])} {reason}")
        if self.recovered:
            parts.append(f"{_names(self.recovered)} there after all")
        unexplained = (
            more - self.bought - self.warm + len(self.drained) + len(self.overdue_workers) - len(self.recovered)
        )
        if unexplained < 0:
            parts.append(f"{-unexplained} ordered or lost and not needed any more")
        if unexplained > 0:
            parts.append(f"{unexplained} there that had not been counted")
        if self.capacity and (self.bought or unexplained < 0):
            parts.append(self.capacity)
        if self.gone:
            parts.append(f"{_names(self.gone)} gone")
        return "; ".join(parts) or "the catalogue describes it differently now"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SPELT_OUT])
    return shown if len(names) <= _SPELT_OUT else f"{shown} and {len(names) - _SPELT_OUT} others"
