"""How long the page of a session is reached: never beyond the sign-in that led to it."""

import time
from functools import partial

import pytest
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.session_records import SessionRecord, SessionRecords
from clusterra_gateway.bus.requests import EdgeRequests, SlurmRequests
from clusterra_gateway.http.errors import NotFound
from clusterra_gateway.identity.sessions import SessionKeys
from clusterra_gateway.identity_maps.map_records import MapRecords
from clusterra_gateway.identity_maps.unix_users import UnixUsers
from clusterra_gateway.sessions.entrance import TOKEN, Entrance
from clusterra_gateway.sessions.page_cookie import PageClaims
from clusterra_gateway.sessions.reach import Reach
from clusterra_gateway.sessions.session_jobs import SessionJobs, SessionView
from clusterra_gateway.sessions.tickets import Tickets
from clusterra_runtime.nats import bus
from clusterra_runtime.store.outbox import Outbox
from gateway_world import World
from joserfc.jwk import KeySet, OctKey

REF = ClusterRef(tenant="acme", cluster="main")
KEYS = SessionKeys(KeySet([OctKey.generate_key(256)]))


async def test_a_session_that_was_just_looked_at_is_gone_when_the_cookie_has_expired(world: World) -> None:
    store, client, registry = world.store, world.client, world.registry
    jobs = SessionJobs(SessionRecords(store), SlurmRequests(client), EdgeRequests(client, 5))
    entrance = Entrance(None, KEYS, registry, Tickets(store))
    _, kid = KEYS.derive(TOKEN, "any")
    record = SessionRecord(
        job_id="42", member="m1", template_id="jupyter", name="Jupyter", run_id="r1", kid=kid, created_at=now()
    )
    names = {"tenant": "acme", "cluster": "main", "job_id": "42", "member": "m1", "sign_in": "s1"}
    open_still, over = (PageClaims(**names, exp=int(time.time()) + seconds) for seconds in (60, -1))
    async with Outbox(store, partial(bus.store, client)) as outbox:
        reach = Reach(client, Directory(store, outbox), registry, UnixUsers(MapRecords(store)), jobs, entrance)
        for claims in (open_still, over):
            reach._remembered(claims, REF, SessionView(record, "ready"))

        found = await reach.find(open_still)
        with pytest.raises(NotFound):
            await reach.find(over)

    assert found.view.record == record
