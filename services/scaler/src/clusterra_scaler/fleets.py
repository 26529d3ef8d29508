"""The stored fleet states: one item per cluster, written under a lease together with its outgoing messages."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.condition import Absent, VersionIs, at_most
from clusterra_runtime.store.item import Key, Value
from clusterra_runtime.store.outbox import OUTBOX, Outbox, OutboxMessage
from clusterra_runtime.store.record_level import RecordForms
from clusterra_runtime.store.store import ConditionFailed, Store, Table, Update
from clusterra_runtime.store.table_use import TableUse

from clusterra_scaler.planner.decide import Decision
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.records import packed_history, packed_state, unpacked_history, unpacked_state

FLEETS = Table("fleets", indexes=(OUTBOX,))
TABLES = (
    TableUse(
        FLEETS,
        "each cluster's fleet: desired state, workers and run times",
        frozenset({"get", "update", "query_index"}),
    ),
)
"""The scaler's tables, and what it does with each."""
FORMS = RecordForms(FLEETS, needs=0, knows=1)
"""The migrations of `fleets` that this release knows and needs (`clusterra_admin.migrations`)."""
SERVICE = "scaler"


class FencedOff(Exception):
    """A scaler with a later lease has written the record: this one has lost its lease and must stop deciding."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A state, and the version of the stored record that it is or was derived from; version 0: there is none yet."""

    state: FleetState
    version: int


class Fleets:
    """Reads and writes fleet states.

    A write has two conditions: the record has not changed since it was read, and no scaler with a higher fence has
    ever written it. All methods raise StoreUnavailable, after which a write may have happened or not. Writing methods
    also raise FencedOff, and ConditionFailed if the record changed under the same lease: it must be read again.
    """

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox

    async def take_over(self, ref: ClusterRef, fence: int) -> Recorded:
        """Put the state under a new lease, and publish the desired state under its fence."""
        recorded = await self.read(ref, fence)
        if not recorded.version:
            return recorded
        state = recorded.state.under_new_lease(fence, now())
        return await self._store_and_publish(ref, recorded, state, [_desired(ref, state)])

    async def read(self, ref: ClusterRef, fence: int) -> Recorded:
        """Return the state after the last decision of any scaler. Writes and publishes nothing."""
        item = await self._store.get(FLEETS, fleet_key(ref.key))
        if item is None:
            return Recorded(FleetState.initial(now()).model_copy(update={"fence": fence}), 0)
        stored = unpacked_state(item.attributes["state"])
        if stored.fence > fence:
            raise FencedOff(f"the state of {ref} has the fence {stored.fence}, above our {fence}")
        return Recorded(stored, item.version)

    async def record_state(self, ref: ClusterRef, before: Recorded, state: FleetState) -> Recorded:
        """Record a state whose desired part is unchanged, so that nothing is published."""
        return await self._store_and_publish(ref, before, state, [])

    async def record_decision(self, ref: ClusterRef, before: Recorded, decision: Decision) -> Recorded:
        """Record a decision, and publish the desired state and the event that explains it."""
        state = decision.state
        event = event_of(SERVICE, ref, decision.fact, version=str(state.generation), time=state.decided_at)
        message = OutboxMessage.of(event.id, subjects.event(ref, event.kind), event)
        return await self._store_and_publish(ref, before, state, [_desired(ref, state), message])

    async def history(self, ref: ClusterRef) -> RunHistory:
        """Return the run-time history that was stored last, or an empty one."""
        item = await self._store.get(FLEETS, _history_key(ref))
        return RunHistory() if item is None else unpacked_history(item.attributes["counts"])

    async def store_history(self, ref: ClusterRef, history: RunHistory) -> None:
        """Store the run-time history. The write has no condition: the history of any scaler will do."""
        await self._store.write(Update(FLEETS, _history_key(ref), set={"counts": packed_history(history)}))

    async def _store_and_publish(
        self, ref: ClusterRef, before: Recorded, state: FleetState, messages: Sequence[OutboxMessage]
    ) -> Recorded:
        write = _write(ref, before, state)
        try:
            item = await (self._outbox.write(write, messages) if messages else self._store.write(write))
        except ConditionFailed as failed:
            fence = failed.current.attributes["fence"] if failed.current is not None else 0
            if isinstance(fence, int) and fence > state.fence:
                raise FencedOff(f"the state of {ref} has the fence {fence}, above our {state.fence}") from failed
            raise
        return Recorded(state, item.version)


def fleet_key(cluster_key: str) -> Key:
    """The key of the state of the cluster with this `ClusterRef.key`."""
    return Key(cluster_key, "fleet")


def _history_key(ref: ClusterRef) -> Key:
    return Key(ref.key, "run-times")


def _desired(ref: ClusterRef, state: FleetState) -> OutboxMessage:
    return OutboxMessage.of(f"{ref.key}:{state.generation}", subjects.scale_desired(ref), state.desired())


def _write(ref: ClusterRef, before: Recorded, state: FleetState) -> Update:
    unchanged = VersionIs(before.version) & at_most("fence", state.fence) if before.version else Absent()
    content: dict[str, Value] = {"state": packed_state(state), "fence": state.fence, "generation": state.generation}
    return Update(FLEETS, fleet_key(ref.key), set=content, condition=unchanged)
