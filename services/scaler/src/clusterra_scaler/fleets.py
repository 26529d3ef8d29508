"""The record of what is desired: one item per cluster, written under a lease, with what is to be told of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_contracts import subjects
from clusterra_contracts.events import event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.condition import Absent, VersionIs, at_most
from clusterra_runtime.item import Key, Value
from clusterra_runtime.outbox import OUTBOX, Outbox, OutboxMessage
from clusterra_runtime.store import Store, Table, Update

from clusterra_scaler.planner.decision import Decision
from clusterra_scaler.planner.state import FleetState

FLEETS = Table("fleets", indexes=(OUTBOX,))
SERVICE = "scaler"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A state as it stands in the record; version 0 is none yet."""

    state: FleetState
    version: int


class Fleets:
    """Reads and conditional writes. A write that fails its condition was overtaken: the lease is lost."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox

    async def load(self, ref: ClusterRef) -> Recorded:
        """A cluster's state. Raises StoreUnavailable, and pydantic's ValidationError for what is no state of ours."""
        item = await self._store.get(FLEETS, _key(ref))
        if item is None:
            return Recorded(FleetState.undecided(now()), 0)
        return Recorded(FleetState.model_validate_json(str(item.attributes["state"])), item.version)

    async def keep(self, ref: ClusterRef, before: Recorded, state: FleetState) -> Recorded:
        """Write a state that the edge need not hear of. Raises ConditionFailed, StoreUnavailable."""
        item = await self._store.write(_write(ref, before, state))
        return Recorded(state, item.version)

    async def decide(self, ref: ClusterRef, before: Recorded, decision: Decision) -> Recorded:
        """Write a decision, then publish the desired state, then tell why. Raises ConditionFailed, StoreUnavailable."""
        version = str(decision.state.generation)
        event = event_of(SERVICE, ref, decision.fact, version=version, time=decision.state.decided_at)
        messages = [_desired(ref, decision.state), OutboxMessage.of(event.id, subjects.event(ref, event.kind), event)]
        return await self._tell(ref, before, decision.state, messages)

    async def take_over(self, ref: ClusterRef, before: Recorded, fence: int) -> Recorded:
        """Make the state one of the new lease and tell the edge so. Raises ConditionFailed, StoreUnavailable."""
        state = before.state.taken_over(fence, now())
        return await self._tell(ref, before, state, [_desired(ref, state)] if before.version else [])

    async def _tell(
        self, ref: ClusterRef, before: Recorded, state: FleetState, messages: Sequence[OutboxMessage]
    ) -> Recorded:
        item = await self._outbox.write(_write(ref, before, state), messages)
        return Recorded(state, item.version)


def _key(ref: ClusterRef) -> Key:
    return Key(ref.key, "fleet")


def _desired(ref: ClusterRef, state: FleetState) -> OutboxMessage:
    return OutboxMessage.of(f"{ref.key}:{state.generation}:desired", subjects.scale_desired(ref), state.desired())


def _write(ref: ClusterRef, before: Recorded, state: FleetState) -> Update:
    unchanged = VersionIs(before.version) & at_most("fence", state.fence) if before.version else Absent()
    content: dict[str, Value] = {"state": state.model_dump_json(), "fence": state.fence, "generation": state.generation}
    return Update(FLEETS, _key(ref), set=content, condition=unchanged)
