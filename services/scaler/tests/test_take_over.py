"""A takeover of a record that the release before left behind, with a desired state among its unsent events."""

from collections.abc import Mapping

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Attributes
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import OutboxMessage, with_messages
from clusterra_runtime.store.store import Put
from clusterra_scaler.fleet_table import FLEETS, fleet_key
from clusterra_scaler.fleets import Fleets
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.records import packed_state

MAIN = ClusterRef(tenant="acme", cluster="main")


async def test_an_unsent_desired_state_of_the_release_before_is_superseded() -> None:
    published: list[str] = []

    async def publish(subject: str, _body: bytes, _headers: Mapping[str, str]) -> None:
        published.append(subject)

    state = FleetState(generation=7, fence=1, decided_at=now())
    desired = OutboxMessage.of("7", subjects.scale_desired(MAIN), state.desired())
    event = OutboxMessage(event_id="7:event", subject="event.acme.main.scale.decided", body=b"{}")
    record: Attributes = {"state": packed_state(state), "fence": 1, "generation": 7}
    async with MemoryStore() as store, Outbox(store, publish) as outbox:
        await store.create_tables(FLEETS)
        put = Put(FLEETS, fleet_key(MAIN.key), record, Absent())
        await store.write(with_messages(put, [desired, event], now=1_000_000.0))

        recorded = await Fleets(store, outbox).take_over(MAIN, fence=2)
        assert await outbox.relay_once(FLEETS) == 1

    assert published == ["event.acme.main.scale.decided"]
    assert (recorded.state.generation, recorded.state.fence) == (8, 2)
