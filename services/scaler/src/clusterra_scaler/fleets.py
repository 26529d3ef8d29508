"""The stored fleet states: one item per cluster, written under a lease together with the events about it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.condition import Absent, Present, VersionIs, at_most
from clusterra_runtime.store.fence_counter import FenceCounter
from clusterra_runtime.store.item import Item, Key, Value
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import OutboxMessage, without_subject
from clusterra_runtime.store.store import ConditionFailed, Delete, Store, Update

from clusterra_scaler.fleet_table import FLEETS, fleet_key
from clusterra_scaler.planner.decide import Decision
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.records import packed_history, packed_state, unpacked_history, unpacked_state

SERVICE = "scaler"


class FencedOff(Exception):
    """A scaler with a later lease has written the record: this one has lost its lease and must stop deciding."""

    def __init__(self, ref: ClusterRef, fence: int, ours: int) -> None:
        super().__init__(f"the state of {ref} has the fence {fence}, above our {ours}")
        self.fence = fence
        """The fence of the record."""


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

    def fences(self) -> FenceCounter:
        """The counter of the fences under which states are written."""
        return FenceCounter(self._store, FLEETS, SERVICE)

    async def take_over(self, ref: ClusterRef, fence: int) -> Recorded:
        """Put the state under a new lease. Its desired state is then to be published under the new fence."""
        item = await self._store.get(FLEETS, fleet_key(ref.key))
        recorded = _recorded(ref, item, fence)
        if item is None:
            return recorded
        # The release before put desired states into the outbox. This one supersedes them.
        extra = without_subject(item.attributes, subjects.scale_desired(ref))
        return await self._write(ref, recorded, recorded.state.under_new_lease(fence, now()), extra=extra)

    async def read(self, ref: ClusterRef, fence: int) -> Recorded:
        """Return the state after the last decision of any scaler. Writes and publishes nothing."""
        return _recorded(ref, await self._store.get(FLEETS, fleet_key(ref.key)), fence)

    async def record_state(self, ref: ClusterRef, before: Recorded, state: FleetState) -> Recorded:
        """Record a state whose desired part is unchanged, so that nothing is published."""
        return await self._write(ref, before, state)

    async def record_decision(self, ref: ClusterRef, before: Recorded, decision: Decision) -> Recorded:
        """Record a decision, and publish the event that explains it. The desired state is then to be published."""
        state = decision.state
        event = event_of(SERVICE, ref, decision.fact, version=str(state.generation), time=state.decided_at)
        message = OutboxMessage.of(event.id, subjects.event(ref, event.kind), event)
        return await self._write(ref, before, state, messages=[message])

    async def history(self, ref: ClusterRef) -> RunHistory:
        """Return the run-time history that was stored last, or an empty one."""
        item = await self._store.get(FLEETS, _history_key(ref))
        return RunHistory() if item is None else unpacked_history(item.attributes["counts"])

    async def store_history(self, ref: ClusterRef, history: RunHistory) -> None:
        """Store the run-time history. The write has no condition: the history of any scaler will do."""
        await self._store.write(Update(FLEETS, _history_key(ref), set={"counts": packed_history(history)}))

    async def forget(self, ref: ClusterRef) -> int:
        """Remove all that is stored of a cluster that is deleted. Returns how many records there were."""
        removed = 0
        for key in (fleet_key(ref.key), _history_key(ref)):
            with suppress(ConditionFailed):
                await self._store.delete(Delete(FLEETS, key, Present()))
                removed += 1
        return removed

    async def _write(
        self,
        ref: ClusterRef,
        before: Recorded,
        state: FleetState,
        *,
        messages: Sequence[OutboxMessage] = (),
        extra: Mapping[str, Value] = MappingProxyType({}),
    ) -> Recorded:
        unchanged = VersionIs(before.version) & at_most("fence", state.fence) if before.version else Absent()
        content: dict[str, Value] = {"state": packed_state(state), "fence": state.fence, "generation": state.generation}
        write = Update(FLEETS, fleet_key(ref.key), set={**content, **extra}, condition=unchanged)
        try:
            item = await (self._outbox.write_first(write, messages) if messages else self._store.write(write))
        except ConditionFailed as failed:
            fence = failed.current.attributes["fence"] if failed.current is not None else 0
            if isinstance(fence, int) and fence > state.fence:
                raise FencedOff(ref, fence, state.fence) from failed
            raise
        return Recorded(state, item.version)


def _history_key(ref: ClusterRef) -> Key:
    return Key(ref.key, "run-times")


def _recorded(ref: ClusterRef, item: Item | None, fence: int) -> Recorded:
    if item is None:
        return Recorded(FleetState.initial(now()).model_copy(update={"fence": fence}), 0)
    stored = unpacked_state(item.attributes["state"])
    if stored.fence > fence:
        raise FencedOff(ref, stored.fence, fence)
    return Recorded(stored, item.version)
