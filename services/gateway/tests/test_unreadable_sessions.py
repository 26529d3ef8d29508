"""A record of a session that cannot be read: it is one bad record, for its owner, for others, and for the idle cull."""

from functools import partial
from typing import Any

from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    RUNNING_SESSIONS,
    interactive_session_key,
    running_session_key,
)
from clusterra_gateway.accounts.session_records import SessionRecord, SessionRecords
from clusterra_gateway.bus.requests import EdgeRequests, SlurmRequests
from clusterra_gateway.directory.maps.map_records import MappedUsers, MapRecords
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.sessions.entrance import Entrance
from clusterra_gateway.sessions.idle_cull import IdleCull
from clusterra_gateway.sessions.page_credentials import Tickets
from clusterra_gateway.sessions.session_jobs import SessionJobs
from clusterra_runtime.nats import bus
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put, Store
from gateway_world import World
from joserfc.jwk import KeySet, OctKey

REF = ClusterRef(tenant="acme", cluster="main")
KEYS = SigningKeys(KeySet([OctKey.generate_key(256)]))


def session(**changes: Any) -> SessionRecord:
    fields = {"job_id": "42", "member": "ada", "template_id": "jupyter", "name": "Jupyter", "run_id": "r1", "kid": "k1"}
    return SessionRecord.model_validate({**fields, "created_at": now(), **changes})


async def write_unreadable(store: Store) -> None:
    """A session of a release that names its owner in another way."""
    await store.write(Put(ACCOUNTS, interactive_session_key(REF, "41"), {"job_id": "41"}, Absent()))
    await store.write(Put(ACCOUNTS, running_session_key(REF, "41"), {}, Absent()))


async def test_a_mark_that_names_no_session_hides_no_other(world: World) -> None:
    records = SessionRecords(world.store)
    await world.store.write(Put(ACCOUNTS, Key(RUNNING_SESSIONS, "acme main#42"), {}, Absent()))
    await records.create(REF, session())

    found = await records.running()

    assert found == ((REF, "42"),)


async def test_the_sessions_of_others_are_listed(world: World) -> None:
    records = SessionRecords(world.store)
    await write_unreadable(world.store)
    await records.create(REF, session())

    found = await records.of_member(REF, "ada", 10)

    assert [each.job_id for each in found] == ["42"]


async def test_the_idle_cull_goes_on_with_others(world: World) -> None:
    store, client, registry = world.store, world.client, world.registry
    records = SessionRecords(store)
    await write_unreadable(store)
    await records.create(REF, session(ended=True))
    jobs = SessionJobs(records, SlurmRequests(client), EdgeRequests(client, 5))
    entrance = Entrance(None, KEYS, registry, Tickets(store))

    async with Outbox(store, partial(bus.store, client)) as outbox:
        users = MappedUsers(MapRecords(store))
        await IdleCull(client, Directory(store, outbox), registry, users, jobs, entrance).sweeper().once()

    assert await records.running() == ((REF, "41"),)
