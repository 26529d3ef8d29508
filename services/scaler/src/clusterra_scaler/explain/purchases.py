"""What was bought for which job."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.rpc.why import Purchase

from clusterra_scaler.planner.decide import Decision


@dataclass(frozen=True, slots=True)
class Purchases:
    """By the jobs that a decision named, the last decision that bought for them. A takeover forgets it."""

    by_job: Mapping[JobId, tuple[Purchase, ...]] = field(default_factory=dict)

    def after(self, decision: Decision, snapshot: QueueSnapshot) -> Self:
        """With one more decision; jobs that are over are forgotten."""
        if decision.plan is None or not any(change.job_ids for change in decision.changes):
            return self
        named: dict[JobId, list[Purchase]] = {}
        for change in decision.changes:
            purchase = Purchase(
                decided_at=decision.state.decided_at,
                generation=decision.state.generation,
                shape=change.shape,
                workers=decision.plan.new.get(change.shape, 0),
                reason=change.reason,
            )
            for job_id in change.job_ids:
                named.setdefault(job_id, []).append(purchase)
        there = {job_id for group in snapshot.pending or () for job_id in group.job_ids}
        there |= {_whole(job.job_id) for job in snapshot.running or ()}
        kept = {job_id: bought for job_id, bought in self.by_job.items() if job_id in there or _whole(job_id) in there}
        return type(self)(kept | {job_id: tuple(bought) for job_id, bought in named.items()})

    def last(self, job_ids: Iterable[JobId]) -> tuple[Purchase, ...]:
        """What was last bought for any of these jobs, or for the arrays they belong to."""
        wanted = {each for job_id in job_ids for each in (job_id, _whole(job_id))}
        found = [self.by_job[job_id] for job_id in wanted if job_id in self.by_job]
        return max(found, key=lambda bought: bought[0].generation, default=())


def _whole(job_id: JobId) -> JobId:
    return job_id.partition("_")[0]
