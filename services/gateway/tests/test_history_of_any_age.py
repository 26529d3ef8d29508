"""Clients go on from positions of any age, over streams that were lost: nothing is missed, and nothing told twice.

The events service, its table and the NATS server are real. HISTORY_SEED is the seed.
"""

import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import orjson
import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.events import AdminFact, NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.sse import ServerSentEvent
from clusterra_runtime.nats import topology
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn
from own_tables import own_tables
from sse_reader import sse_reader

SEED = int(os.environ.get("HISTORY_SEED", "1"))
STREAM_WIPES = 2


@dataclass
class Published:
    """What was published, in its order: positions, clusters and ids of events."""

    world: World
    chance: random.Random
    told: list[tuple[int, str, str]] = field(default_factory=list)

    async def publish(self, count: int) -> None:
        """Events of nodes in two clusters, of times that are in no order."""
        for _ in range(count):
            ref = ClusterRef(tenant="acme", cluster=self.chance.choice(("main", "two")))
            fact = NodeFact(kind=self.chance.choice(("node.down", "node.removed")), node=f"n{len(self.told)}")
            event = event_of("proxy", ref, fact, version="1", time=now())
            body, headers = encode(event, message_id=event.id)
            stored = await self.world.client.jetstream().publish(subjects.event(ref, fact.kind), body, headers=headers)
            self.told.append((stored.seq, ref.cluster, event.id))

    def after(self, position: int, cluster: str | None) -> list[str]:
        return [told for at, of, told in self.told if at > position and cluster in (None, of)]


def path(cluster: str | None) -> str:
    return "/v1/events" if cluster is None else f"/v1/clusters/{cluster}/events"


@asynccontextmanager
async def archived_world(
    settings: Settings, issuer: IssuerStandIn, emulator: Aws, folder: Path
) -> AsyncIterator[World]:
    """A gateway with a real archive behind it."""
    async with declared_nats(folder / "nats") as nats, own_tables("events", emulator) as tables:
        own = settings.model_copy(update={"nats_url": nats.url})
        async with running(own, issuer) as world:
            await world.acme.stop_serving()
            await world.add_silent_cluster("two")
            command = [sys.executable, "-m", "clusterra_events"]
            process = await start("events", command, log=folder / "events.log", env={**nats.environment(), **tables})
            try:
                yield world
            finally:
                await process.stop()


async def listed(browser: aiohttp.ClientSession, cluster: str | None, **query: str) -> tuple[list[str], str | None]:
    """The ids of all pages, and the position up to which they are complete; None if the archive was too slow."""
    found, position = list[str](), None
    while True:
        async with browser.get(path(cluster), params=query) as answer:
            if answer.status == 503:
                return [], None
            assert answer.status == 200, await answer.text()
            page = await answer.json()
            if (position := answer.headers.get("Event-Position")) is None:
                return [], None
        found += [event["id"] for event in page["events"] if "node" in event["data"]]
        if page["cursor"] is None:
            return found, position
        query["cursor"] = page["cursor"]


async def all_archived(browser: aiohttp.ClientSession, published: Published) -> None:
    async def complete() -> bool:
        found, _ = await listed(browser, None, limit="500")
        return len(found) >= len(published.told)

    await until(complete, seconds=240, what="the archive to have all events", every=0.2)


async def ids_after(browser: aiohttp.ClientSession, cluster: str | None, position: int | str, count: int) -> list[str]:
    """The ids that a stream tells after a position."""
    async with sse_reader(browser, f"{path(cluster)}/stream", last_id=position) as reader:
        await until(lambda: len(ids_of(reader.events)) >= count, seconds=240, what=f"{count} events", every=0.02)
        assert [event for event in reader.events if event.event == "reset"] == []
        return ids_of(reader.events)


def ids_of(events: list[ServerSentEvent]) -> list[str]:
    told = [orjson.loads(event.data) for event in events if event.event == "message"]
    return [each["id"] for each in told if "node" in each["data"]]


async def wiped(world: World) -> None:
    """The stream is lost and made again, as after the loss of a server's disk."""
    await world.client.jetstream().delete_stream("EVENT")
    await topology.apply(world.client)


async def test_nothing_is_missed_or_told_twice_from_a_position_of_any_age(
    settings: Settings, issuer: IssuerStandIn, emulator: Aws, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    async with archived_world(settings, issuer, emulator, tmp_path) as world:
        browser = await world.login("boss@acme.example")
        published = Published(world, chance)

        async def answers() -> bool:
            async with browser.get("/v1/events", params={"limit": "1"}) as answer:
                return answer.status == 200

        await until(answers, seconds=240, what="the events service")
        await published.publish(1)
        await all_archived(browser, published)

        async def in_order() -> bool:
            """Whether the archive keeps the order of the stream, with this event among what is whole."""
            await published.publish(1)
            await all_archived(browser, published)
            await world.client.jetstream().purge_stream("EVENT")
            async with sse_reader(browser, "/v1/events/stream", last_id=published.told[-2][0]) as reader:
                await reader.until_events(1)
            return reader.events[0].event == "message"

        await until(in_order, seconds=240, what="the archive to keep the order", every=1.0)
        first = published.told[-1][0]
        halves: list[tuple[str | None, list[str], str, str]] = []
        for _ in range(STREAM_WIPES + 1):
            await published.publish(chance.randrange(20, 60))
            await all_archived(browser, published)
            for cluster in ("main", None):
                async with browser.get(path(cluster), params={"limit": "7"}) as answer:
                    page = await answer.json()
                    told = [event["id"] for event in page["events"] if "node" in event["data"]]
                    halves.append((cluster, told, page["cursor"], answer.headers["Event-Position"]))
            await wiped(world)
        await published.publish(chance.randrange(100, 200))
        await all_archived(browser, published)
        # The age of the stream's first events.
        await world.client.jetstream().purge_stream("EVENT", keep=30)

        positions = [at for at, _, _ in published.told if at >= first]
        for cluster in ("main", "two", None):
            for position in chance.sample(positions, 6):
                expected = published.after(position, cluster)
                assert await ids_after(browser, cluster, position, len(expected)) == expected

        for cluster, page_one, cursor, upto in halves:

            async def rest(cluster: str | None = cluster, at: str = cursor) -> tuple[list[str], str | None] | None:
                found = await listed(browser, cluster, limit="50", cursor=at)
                return found if found[1] is not None else None

            others, complete_to = await until(rest, seconds=240, what="the pages of a cursor", every=0.5)
            expected = published.after(int(upto), cluster)
            followed = expected
            if int(upto) >= first:
                followed = await ids_after(browser, cluster, upto, len(expected))
            assert complete_to == upto
            assert sorted(page_one + others + followed) == sorted(published.after(0, cluster))

        async with sse_reader(browser, "/v1/events/stream", last_id=positions[0]) as reader:
            await published.publish(20)
            expected = published.after(positions[0], None)
            await until(lambda: len(ids_of(reader.events)) >= len(expected), seconds=240, what="live events")
            assert ids_of(reader.events) == expected


async def test_the_audit_of_a_workspace_has_an_act_once_and_its_clusters_in_one_order(
    settings: Settings, issuer: IssuerStandIn, emulator: Aws, tmp_path: Path
) -> None:
    async with archived_world(settings, issuer, emulator, tmp_path) as world:
        boss = await world.login("boss@acme.example")
        for number in range(12):
            async with boss.put("/v1/quotas/user/ada", json={"limit": f"{10 + number}.00", "mode": "block"}) as answer:
                assert answer.status < 300, await answer.text()
        paused = ClusterRef(tenant="acme", cluster="two")
        fact = AdminFact(kind="cluster.paused", actor="boss", subject="two")
        event = event_of("gateway", paused, fact, version="1", time=now())
        body, headers = encode(event, message_id=event.id)
        await world.client.jetstream().publish(subjects.event(paused, fact.kind), body, headers=headers)

        async def exported() -> list[dict[str, str]] | None:
            async with boss.get("/v1/audit", params={"kind": "quota.changed,cluster.paused"}) as answer:
                if answer.status != 200:
                    return None
                found = [orjson.loads(line) for line in (await answer.text()).splitlines()]
            return found if len(found) >= 13 else None

        audit = await until(exported, seconds=240, what="the audit", every=0.5)
        pages, query = list[str](), {"kind": "audit", "limit": "1"}
        while True:
            async with boss.get("/v1/events", params=query) as answer:
                page = await answer.json()
            pages += [event["data"]["kind"] for event in page["events"]]
            if page["cursor"] is None:
                break
            query["cursor"] = page["cursor"]

        assert [entry["action"] for entry in audit] == [*["quota.changed"] * 12, "cluster.paused"]
        acts = [each for each in pages if each in ("quota.changed", "cluster.paused")]
        assert acts == [*["quota.changed"] * 12, "cluster.paused"]
        assert [entry["time"] for entry in audit] == sorted(entry["time"] for entry in audit)
        async with (await world.login("ada@acme.example")).get("/v1/audit") as answer:
            assert answer.status == 403


@pytest.mark.parametrize("cluster", ["nowhere", "secret"])
async def test_a_cluster_of_nobody_or_of_another_workspace_is_refused(world: World, cluster: str) -> None:
    boss = await world.login("boss@acme.example")

    for where in ("/v1/events", "/v1/events/export", "/v1/audit"):
        async with boss.get(where, params={"cluster": cluster}) as answer:
            assert answer.status == 400
