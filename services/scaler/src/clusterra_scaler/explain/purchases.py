"""Which workers were bought for which job."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.rpc.why import Purchase

from clusterra_scaler.planner.decide import Decision


@dataclass(frozen=True, slots=True)
class PurchaseHistory:
    """The last purchases for each job that a decision named. They are lost in a takeover."""

    by_job: Mapping[JobId, tuple[Purchase, ...]] = field(default_factory=dict)

    def after(self, decision: Decision, snapshot: QueueSnapshot) -> Self:
        """Add the purchases of a decision, and drop those for jobs that have ended."""
        if decision.plan is None or not any(change.job_ids for change in decision.changes):
            return self
        added: dict[JobId, list[Purchase]] = {}
        for change in decision.changes:
            purchase = Purchase(
                decided_at=decision.state.decided_at,
                generation=decision.state.generation,
                shape=change.shape,
                workers=decision.plan.new.get(change.shape, 0),
                reason=change.reason,
            )
            for job_id in change.job_ids:
                added.setdefault(job_id, []).append(purchase)
        present = {job_id for group in snapshot.pending or () for job_id in group.job_ids}
        present |= {_array_of(job.job_id) for job in snapshot.running or ()}
        kept = {
            job_id: purchases
            for job_id, purchases in self.by_job.items()
            if job_id in present or _array_of(job_id) in present
        }
        return type(self)(kept | {job_id: tuple(purchases) for job_id, purchases in added.items()})

    def last(self, job_ids: Iterable[JobId]) -> tuple[Purchase, ...]:
        """The latest purchases for any of these jobs, or for the arrays that they belong to."""
        wanted = {each for job_id in job_ids for each in (job_id, _array_of(job_id))}
        found = [self.by_job[job_id] for job_id in wanted if job_id in self.by_job]
        return max(found, key=lambda purchases: purchases[0].generation, default=())


def _array_of(job_id: JobId) -> JobId:
    """The id of a task's array; the id itself for any other job."""
    return job_id.partition("_")[0]
