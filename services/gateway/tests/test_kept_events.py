"""What people of a tenant without clusters do is in the history of its first cluster."""

from dataclasses import replace
from functools import partial

import aiohttp
import pytest
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.admin_events import MAX_TOLD_AT_ONCE, KeptEvents, kept_fact
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, KEPT_EVENTS, tenant_key
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.registry import Registry, put_binding
from clusterra_runtime.store.outbox import Outbox
from gateway_world import World, apply_file, provisioned
from people_world import make_token

TENANT = "lonely"


async def provision(world: World, *clusters: str) -> None:
    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        directory = Directory(world.store, outbox)
        await apply_file(directory, provisioned(TENANT, *clusters))
        for ref, binding in (await directory.clusters()).items():
            await put_binding(world.client, ref, binding)


async def history(world: World, cluster: str) -> list[Event]:
    stored = [each async for each in replay(world.client, "EVENT", f"event.{TENANT}.{cluster}.>")]
    return [decode(Event, each.body, dict(each.headers)) for each in stored]


async def kept(world: World) -> int:
    return len((await world.store.query(ACCOUNTS, tenant_key(TENANT).pk, sort=KEPT_EVENTS)).items)


async def made_events(world: World) -> aiohttp.ClientSession:
    """The browser of a member of a tenant without clusters, which keeps four events."""
    await provision(world)
    browser = await world.login(f"nina@{TENANT}.example")
    token = (await make_token(browser))["id"]
    assert (await browser.delete(f"/v1/users/me/tokens/{token}")).status == 204
    assert await kept(world) == 4
    return browser


async def told(world: World) -> None:
    """Waits until no event is kept."""

    async def none() -> bool:
        return await kept(world) == 0

    await until(none, seconds=90, what="the kept events in the history of the first cluster")


@pytest.mark.usefixtures("quick_sweeps")
async def test_events_of_a_tenant_without_clusters_wait_for_its_first_one(world: World) -> None:
    await made_events(world)

    await provision(world, "first")
    await told(world)
    events = await history(world, "first")

    assert sorted(event.kind for event in events) == [
        *("cluster.registered", "tenant.created", "token.created", "token.revoked", "user.created")
    ]
    registered = next(event.time for event in events if event.kind == "cluster.registered")
    assert all(event.time < registered for event in events if event.kind != "cluster.registered")


@pytest.mark.usefixtures("quick_sweeps")
async def test_events_of_a_tenant_with_clusters_are_not_kept(world: World) -> None:
    browser = await made_events(world)
    await provision(world, "third")
    await told(world)
    await provision(world, "third", "fourth")

    await make_token(browser, name="more")

    assert await kept(world) == 0


async def test_a_kept_fact_of_a_newer_release_stays_and_holds_up_no_other(world: World) -> None:
    await provision(world, "fifth")
    ours, newer = (
        kept_fact(TENANT, AdminFact(kind="token.created", actor="nina", subject=name), version="9", at=now())
        for name in ("zz-ours", "aa-newer")
    )
    fact = str(newer.attributes["fact"]).replace("token.created", "token.unheard_of")
    await world.store.write(ours)
    await world.store.write(replace(newer, attributes={**newer.attributes, "fact": fact}))
    registry = Registry()
    await registry.start(world.client)

    await KeptEvents(world.store, world.client, registry).tell(TENANT)

    await registry.stop()
    assert await kept(world) == 1
    assert "zz-ours" in {event.subject for event in await history(world, "fifth")}


async def test_a_tenant_that_gets_many_clusters_is_looked_at_again(world: World) -> None:
    await provision(world, "grows-0")
    registry = Registry()
    await registry.start(world.client)
    events = KeptEvents(world.store, world.client, registry)
    await events.tell(TENANT)
    before = await events._tenants()
    await provision(world, *(f"grows-{number}" for number in range(MAX_TOLD_AT_ONCE + 1)))

    def many() -> bool:
        return sum(ref.tenant == TENANT for ref in registry.clusters) > MAX_TOLD_AT_ONCE

    await until(many, seconds=90, what="the clusters in the registry")

    after = await events._tenants()

    await registry.stop()
    assert TENANT not in before
    assert TENANT in after


async def test_a_tenant_of_many_clusters_has_what_people_do_in_each_history(world: World) -> None:
    clusters = [f"many-{number}" for number in range(MAX_TOLD_AT_ONCE + 5)]
    await provision(world, *clusters)
    first = await world.login(f"nina@{TENANT}.example")

    async def served() -> bool:
        async with first.get("/v1/clusters") as answer:
            return len((await answer.json())["clusters"]) == len(clusters)

    await until(served, seconds=90, what="the clusters in the gateway", every=0.05)
    browser = await world.login(f"mona@{TENANT}.example")

    await make_token(browser)

    async def told() -> bool:
        return "token.created" in {event.kind for event in await history(world, clusters[-1])}

    await until(told, seconds=90, what="the event in the history of the last cluster")
    assert {"token.created", "user.created"} <= {event.kind for event in await history(world, clusters[0])}
