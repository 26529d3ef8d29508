"""Stores workflows, each changed by conditional writes only.

| partition | sort key | item |
|---|---|---|
| `run#<tenant>.<cluster>#<run id>` | `run` | the workflow |
| | `step#<index>` | the specification of one of its jobs |
| `cluster#<tenant>.<cluster>` | `<creation time>#<run id>` | the mark of a workflow, for the list of all |
| `member#<tenant>.<cluster>#<member id>` | `<creation time>#<run id>` | the same, for the list of its owner's |
| `unfinished` | `<tenant>.<cluster>#<run id>` | the mark of an unfinished workflow, for the sweep |

All items expire 30 days after the workflow was created. Where a member has too many, the scripts and marks of their
oldest that have ended go earlier: then the workflow itself stays for a day after its creation, so that its
Idempotency-Key starts no other.

The write that starts, resumes or ends a workflow carries its event.
"""

import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import structlog
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import ATTRIBUTES
from clusterra_runtime.store.store import Check, Delete, Put, Store, TransactionCancelled, Update, Write
from pydantic import ValidationError

from clusterra_gateway.accounts.records import expiry, marked_places
from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.idempotency.key import KEEP_SECONDS
from clusterra_gateway.workflows.run_events import events_of_change
from clusterra_gateway.workflows.table import RUNS
from clusterra_gateway.workflows.transitions import Change, has_work
from clusterra_gateway.workflows.workflow import Workflow, WorkflowJobSpec

log = structlog.get_logger()

KEPT = timedelta(days=30)
UNSENT_KEPT = timedelta(days=1)
"""How long a removed workflow stays whose event is not sent yet, so that it can be sent."""
UNFINISHED = "unfinished"
CHANGE_ATTEMPTS = 10
"""Attempts to change a workflow that others change at the same time."""


@dataclass(frozen=True, slots=True)
class StoredWorkflow:
    """A workflow at a version of its item."""

    workflow: Workflow
    version: int
    unsent: bool = False
    """Whether its item holds an event that may not have been sent."""


class WorkflowRecords:
    """The workflows of all clusters. Every method may raise StoreUnavailable."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox

    async def create(self, ref: ClusterRef, workflow: Workflow, specs: tuple[WorkflowJobSpec, ...]) -> bool:
        """Stores a new workflow. Returns False if one with its id exists."""
        ends, mark = expiry(workflow.created_at + KEPT), _mark(workflow)
        itself = Put(RUNS, _run_key(ref, workflow.id), _attributes(workflow), Absent(), ends)
        others = [
            Put(RUNS, Key(_cluster(ref), mark), {}, Absent(), ends),
            Put(RUNS, Key(_member(ref, workflow.member), mark), {}, Absent(), ends),
            Put(RUNS, _unfinished_key(ref, workflow.id), {}, Absent(), ends),
            *(
                Put(RUNS, _step_key(ref, workflow.id, index), each.attributes(), Absent(), ends)
                for index, each in enumerate(specs)
            ),
        ]
        try:
            await self._outbox.transact(itself, events_of_change(ref, None, workflow), others, token=_token(workflow))
        except TransactionCancelled:
            return False
        return True

    async def read(self, ref: ClusterRef, run_id: str) -> StoredWorkflow | None:
        """The workflow; None if it does not exist."""
        item = await self._store.get(RUNS, _run_key(ref, run_id))
        return None if item is None else _stored(item)

    async def spec(self, ref: ClusterRef, run_id: str, index: int) -> WorkflowJobSpec | None:
        """The specification of a job; None if the workflow has expired."""
        item = await self._store.get(RUNS, _step_key(ref, run_id, index))
        return None if item is None else WorkflowJobSpec.of(item)

    async def change(self, ref: ClusterRef, run_id: str, change: Change) -> StoredWorkflow | None:
        """Applies `change` to a workflow and stores the result. Returns None if the workflow does not exist.

        After a conflicting write, `change` is applied again to what was written. Raises Unavailable, and what `change`
        raises.
        """

        async def attempt() -> StoredWorkflow | None:
            stored = await self.read(ref, run_id)
            if stored is None:
                return None
            changed = change(stored.workflow)
            if changed == stored.workflow:
                return stored
            wrote_event = await self._replace(ref, stored, changed)
            return StoredWorkflow(changed, stored.version + 1, unsent=stored.unsent or wrote_event)

        contended = Unavailable("others are changing this run", hint="try again in a moment")
        return await write_optimistically(attempt, contended=contended, attempts=CHANGE_ATTEMPTS)

    async def finish(self, ref: ClusterRef, run_id: str) -> None:
        """Removes the mark of a workflow that no longer exists."""
        await self._store.delete(Delete(RUNS, _unfinished_key(ref, run_id)))

    async def list(
        self, ref: ClusterRef, member: str | None, *, limit: int, cursor: str | None
    ) -> tuple[tuple[Workflow, ...], str | None]:
        """Workflows of a member, or of all (None), the newest first, with a cursor. Raises InvalidCursor."""
        partition = _cluster(ref) if member is None else _member(ref, member)
        page = await self._store.query(RUNS, partition, descending=True, limit=limit, cursor=cursor)
        found = [await self.readable(ref, _marked_id(item)) for item in page.items]
        return tuple(each.workflow for each in found if each is not None), page.cursor

    async def oldest(self, ref: ClusterRef, member: str, most: int) -> tuple[str, ...]:
        """The ids of a member's workflows that are kept, at most `most`, the oldest first."""
        page = await self._store.query(RUNS, _member(ref, member), limit=most)
        return tuple(map(_marked_id, page.items))

    async def readable(self, ref: ClusterRef, run_id: str) -> StoredWorkflow | None:
        """One workflow of several; None for one that has just expired, or that only a newer release can read."""
        try:
            return await self.read(ref, run_id)
        except ValidationError as error:
            # Not the error's text: it repeats the record.
            log.error("run_unreadable", run_id=run_id, problems=error.error_count())  # noqa: TRY400
            return None

    async def remove(self, ref: ClusterRef, stored: StoredWorkflow) -> bool:
        """Removes a workflow that has ended. Returns False where it was changed in the meantime.

        Its record answers to its Idempotency-Key until that expires, and to administrators, who still see it listed.
        """
        workflow, mark = stored.workflow, _mark(stored.workflow)
        itself, unchanged = _run_key(ref, workflow.id), VersionIs(stored.version)
        key_ends = workflow.created_at + timedelta(seconds=KEEP_SECONDS)
        if stored.unsent:
            key_ends = max(key_ends, now() + UNSENT_KEPT)
        listed = Key(_cluster(ref), mark)
        record: list[Write] = (
            [
                Update(RUNS, itself, condition=unchanged, expires_at=expiry(key_ends)),
                Update(RUNS, listed, expires_at=expiry(key_ends)),
            ]
            if key_ends > now()
            else [Delete(RUNS, itself, unchanged), Delete(RUNS, listed)]
        )
        rest = [Key(_member(ref, workflow.member), mark), _unfinished_key(ref, workflow.id)]
        rest += [_step_key(ref, workflow.id, index) for index in range(len(workflow.steps))]
        try:
            writes = [*record, *(Delete(RUNS, key) for key in rest)]
            await self._store.transact(writes, token=_token(workflow))
        except TransactionCancelled:
            return False
        return True

    async def unfinished(self) -> tuple[tuple[ClusterRef, str], ...]:
        """The clusters and ids of unfinished workflows. Logs marks that name no cluster."""
        return await marked_places(self._store, RUNS, UNFINISHED)

    async def remove_mark(self, ref: ClusterRef, run_id: str) -> None:
        """Remove the mark of a workflow that is over. A gateway of the release before leaves it there."""
        stored = await self.read(ref, run_id)
        if stored is None or not stored.workflow.over:
            return
        unchanged = Check(RUNS, _run_key(ref, run_id), VersionIs(stored.version))
        with suppress(TransactionCancelled):  # somebody resumes it
            await self._store.transact(
                [unchanged, Delete(RUNS, _unfinished_key(ref, run_id))], token=_token(stored.workflow)
            )

    async def forget(self, ref: ClusterRef, most: int) -> int:
        """Remove at most `most` workflows of a cluster that is deleted. Returns how many. Their marks go last."""
        page = await self._store.query(RUNS, _cluster(ref), limit=most)
        for item in page.items:
            run_id = _marked_id(item)
            workflow = await self._store.get(RUNS, _run_key(ref, run_id))
            parts = await self._store.query(RUNS, _run_key(ref, run_id).pk)
            keys = [part.key for part in parts.items if part.key.sk != "run"]
            if workflow is not None:
                keys += [Key(_member(ref, _stored(workflow).workflow.member), item.key.sk), workflow.key]
            for key in (*keys, _unfinished_key(ref, run_id), item.key):
                await self._store.delete(Delete(RUNS, key))
        return len(page.items)

    async def _replace(self, ref: ClusterRef, stored: StoredWorkflow, changed: Workflow) -> bool:
        """Stores a changed workflow. Returns whether an event was written with it."""
        update = Update(RUNS, _run_key(ref, changed.id), set=_attributes(changed), condition=VersionIs(stored.version))
        messages, marks = events_of_change(ref, stored.workflow, changed), _mark_writes(ref, stored.workflow, changed)
        if messages:
            await self._outbox.transact(update, messages, marks, token=_token(changed))
        elif marks:
            await self._store.transact([update, *marks], token=_token(changed))
        else:
            await self._store.write(update)
        return bool(messages)


def _mark_writes(ref: ClusterRef, before: Workflow, after: Workflow) -> tuple[Write, ...]:
    """What a change writes of the mark of an unfinished workflow.

    It is also written where there is work again: the release before removes it as soon as all jobs are submitted.
    """
    key = _unfinished_key(ref, after.id)
    if after.over:
        return () if before.over else (Delete(RUNS, key),)
    if before.over or has_work(before) != has_work(after):
        return (Update(RUNS, key, set={}, expires_at=expiry(after.created_at + KEPT)),)
    return ()


def _token(workflow: Workflow) -> str:
    return f"run-{workflow.id}-{secrets.token_hex(8)}"


def _attributes(workflow: Workflow) -> dict[str, str]:
    return {"run": workflow.model_dump_json()}


def _stored(item: Item) -> StoredWorkflow:
    workflow = Workflow.model_validate_json(str(item.attributes["run"]))
    return StoredWorkflow(workflow, item.version, unsent=not item.attributes.keys().isdisjoint(ATTRIBUTES))


def _mark(workflow: Workflow) -> str:
    return f"{workflow.created_at.isoformat(timespec='microseconds')}#{workflow.id}"


def _marked_id(mark: Item) -> str:
    return mark.key.sk.rpartition("#")[2]


def _run_key(ref: ClusterRef, run_id: str) -> Key:
    return Key(f"run#{ref.key}#{run_id}", "run")


def _step_key(ref: ClusterRef, run_id: str, index: int) -> Key:
    return Key(f"run#{ref.key}#{run_id}", f"step#{index:03}")


def _cluster(ref: ClusterRef) -> str:
    return f"cluster#{ref.key}"


def _member(ref: ClusterRef, member: str) -> str:
    return f"member#{ref.key}#{member}"


def _unfinished_key(ref: ClusterRef, run_id: str) -> Key:
    return Key(UNFINISHED, f"{ref.key}#{run_id}")
