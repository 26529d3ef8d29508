"""The events of a workflow: its start, each resume, and the end of each attempt."""

from collections import Counter

from clusterra_contracts.events import RunFact, RunKind
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.outbox_item import OutboxMessage

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.workflows.workflow import Workflow

_ENDS: dict[str, RunKind] = {"completed": "run.completed", "failed": "run.failed", "cancelled": "run.cancelled"}


def events_of_change(ref: ClusterRef, before: Workflow | None, after: Workflow) -> list[OutboxMessage]:
    """The events that belong into the write of a change: at most one. `before` is None for a new workflow."""
    if before is None:
        return [_event(ref, after, "run.started")]
    if before.over == after.over:
        return []
    return [_event(ref, after, _ENDS[after.state] if after.over else "run.resumed")]


def _event(ref: ClusterRef, workflow: Workflow, kind: RunKind) -> OutboxMessage:
    ended = workflow.over
    fact = RunFact(
        kind=kind,
        run_id=workflow.id,
        name=workflow.name,
        user=workflow.user.name,
        uid=workflow.user.uid,
        steps=dict(Counter(job.state for job in workflow.steps)) if ended else {},
        failed_step=next((job.step_id for job in workflow.steps if ended and job.failed), ""),
    )
    # Each attempt has one end, and an Idempotency-Key gives the same id again once the workflow of before is forgotten.
    attempt = workflow.resumed_at or workflow.created_at
    return cluster_event(ref, fact, version=attempt.isoformat())
