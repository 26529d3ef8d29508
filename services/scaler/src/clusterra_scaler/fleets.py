"""The record of what is desired: one item per cluster, written under a lease, with what is to be told of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.condition import Absent, VersionIs, at_most
from clusterra_runtime.store.item import Key, Value
from clusterra_runtime.store.outbox import OUTBOX, Outbox, OutboxMessage
from clusterra_runtime.store.store import ConditionFailed, Store, Table, Update

from clusterra_scaler.planner.decide import Decision
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.records import packed_history, packed_state, unpacked_history, unpacked_state

FLEETS = Table("fleets", indexes=(OUTBOX,))
SERVICE = "scaler"


class Overtaken(Exception):
    """A scaler with a later lease has written: this one has lost its own and must not decide any more."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A state and the version of the record it stands on or was made from; version 0 is no record yet."""

    state: FleetState
    version: int


class Fleets:
    """Reads, and writes on two conditions: nobody wrote since it was read, and nobody with a higher fence ever did.

    All methods raise StoreUnavailable, after which a write may have happened; those that write raise Overtaken, and
    ConditionFailed when the record is not what it was although the lease still is: read it again.
    """

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox

    async def take_over(self, ref: ClusterRef, fence: int) -> Recorded:
        """Make what is desired the wish of a new lease, and tell the edge so."""
        recorded = await self.read(ref, fence)
        if not recorded.version:
            return recorded
        state = recorded.state.taken_over(fence, now())
        return await self._tell(ref, recorded, state, [_desired(ref, state)])

    async def read(self, ref: ClusterRef, fence: int) -> Recorded:
        """What was decided last, by whomever; nothing is written or told."""
        item = await self._store.get(FLEETS, _key(ref))
        if item is None:
            return Recorded(FleetState.undecided(now()).model_copy(update={"fence": fence}), 0)
        stored = unpacked_state(item.attributes["state"])
        if stored.fence > fence:
            raise Overtaken(f"{ref} is decided for under fence {stored.fence}, ours is {fence}")
        return Recorded(stored, item.version)

    async def keep(self, ref: ClusterRef, before: Recorded, state: FleetState) -> Recorded:
        """Record what the edge need not hear of."""
        return await self._tell(ref, before, state, [])

    async def decide(self, ref: ClusterRef, before: Recorded, decision: Decision) -> Recorded:
        """Record a decision, publish the desired state, and tell why."""
        state = decision.state
        event = event_of(SERVICE, ref, decision.fact, version=str(state.generation), time=state.decided_at)
        told = OutboxMessage.of(event.id, subjects.event(ref, event.kind), event)
        return await self._tell(ref, before, state, [_desired(ref, state), told])

    async def history(self, ref: ClusterRef) -> RunHistory:
        """What was learned of run times and kept last."""
        item = await self._store.get(FLEETS, _history_key(ref))
        return RunHistory() if item is None else unpacked_history(item.attributes["counts"])

    async def keep_history(self, ref: ClusterRef, history: RunHistory) -> None:
        """Keep it. Under no condition: whoever wrote last is as good as any."""
        await self._store.write(Update(FLEETS, _history_key(ref), set={"counts": packed_history(history)}))

    async def _tell(
        self, ref: ClusterRef, before: Recorded, state: FleetState, messages: Sequence[OutboxMessage]
    ) -> Recorded:
        write = _write(ref, before, state)
        try:
            item = await (self._outbox.write(write, messages) if messages else self._store.write(write))
        except ConditionFailed as failed:
            fence = failed.current.attributes["fence"] if failed.current is not None else 0
            if isinstance(fence, int) and fence > state.fence:
                raise Overtaken(f"{ref} is decided for under fence {fence}, ours is {state.fence}") from failed
            raise
        return Recorded(state, item.version)


def _key(ref: ClusterRef) -> Key:
    return Key(ref.key, "fleet")


def _history_key(ref: ClusterRef) -> Key:
    return Key(ref.key, "run-times")


def _desired(ref: ClusterRef, state: FleetState) -> OutboxMessage:
    return OutboxMessage.of(f"{ref.key}:{state.generation}", subjects.scale_desired(ref), state.desired())


def _write(ref: ClusterRef, before: Recorded, state: FleetState) -> Update:
    unchanged = VersionIs(before.version) & at_most("fence", state.fence) if before.version else Absent()
    content: dict[str, Value] = {"state": packed_state(state), "fence": state.fence, "generation": state.generation}
    return Update(FLEETS, _key(ref), set=content, condition=unchanged)
