"""Records in the cluster's history that the files of a job were staged.

The id of the event is deterministic, so repeats are harmless. It is written before the staging enters its next phase.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Literal

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import StagingFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.store import ConditionFailed, Put

from clusterra_gateway.accounts.admin_events import SERVICE
from clusterra_gateway.accounts.keyspace import ACCOUNTS, file_event_key
from clusterra_gateway.accounts.records import expiry
from clusterra_gateway.staging.staging import Staging

_KEPT = timedelta(days=7)
"""How long the item of a sent event is kept: longer than the event may be written again."""


class StagingEvents:
    """Writes the events of stagings."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def tell(self, ref: ClusterRef, staging: Staging, direction: Literal["in", "out"]) -> None:
        """Tell that one direction is over. Raises StoreUnavailable."""
        copied = staging.staged_in if direction == "in" else staging.staged_out
        assert staging.job_id is not None  # noqa: S101 - nothing is staged before the job is known
        fact = StagingFact(
            job_id=staging.job_id,
            name=staging.job_name,
            user=staging.user.name,
            uid=staging.user.uid,
            direction=direction,
            state="failed" if copied.failed_files else "done",
            files=copied.files,
            bytes=copied.bytes,
            failed_files=copied.failed_files,
        )
        at, version = now(), f"{staging.id}-{direction}"
        event = event_of(SERVICE, ref, fact, version=version, time=at)
        put = Put(ACCOUNTS, file_event_key(ref, version), {}, Absent(), expiry(at + _KEPT))
        with suppress(ConditionFailed):  # it was told already
            await self._outbox.write(put, [OutboxMessage.of(event.id, subjects.event(ref, fact.kind), event)])
