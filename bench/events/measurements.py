"""The measurements of events: what is published reaches the archive, followers and webhooks."""

import asyncio
import base64
import itertools
import os
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import psutil
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import EVENT, EVENTS_ARCHIVE
from clusterra_contracts.events import NodeFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.webhooks import DeliverFrom, Webhook, WebhookSecret
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress
from clusterra_lab.stack.events_site import SECOND, EventsSite
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.store import Put
from clusterra_runtime.store.webhook_records import WEBHOOKS, attributes_of, webhook_key

from events.followers import Followers
from events.load import Loading, Published, Told, loading
from events.plain import Kind, Plain
from events.receivers import Receivers

type Figures = dict[str, float]

KIND = "node.down"
STREAMS_EACH = 20
"""Streams of one service account at one gateway, which allows it 50."""
AT_ONCE = 64
"""How many publish at the same time, where it is about throughput."""
PATIENCE_SECONDS = 120.0
WEBHOOKS_EACH = 50
"""The most webhooks of a tenant."""
MB = 1_000_000


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    events: int
    """Events that are archived as fast as possible."""
    clients: int
    webhooks: int
    rate: float
    """Events in a second for the clients."""
    webhook_rate: float
    """Events in a second for the webhooks. Each of them gets every one."""
    seconds: float
    """How long events are published at a rate."""


@dataclass
class Bench:
    """A site, and the figures so far."""

    site: EventsSite
    sizes: Sizes
    progress: Progress
    figures: Figures = field(default_factory=dict)

    async def archive(self) -> None:
        """As many events as possible, while plain consumers read them, too."""
        count = self.sizes.events
        self.progress(f"{count} events for the archive")
        publisher, numbers, at = EventPublisher(self.site.bus, "proxy"), itertools.count(), [0.0] * count

        async def publish() -> None:
            while (number := next(numbers)) < count:
                at[number] = time.monotonic()
                await publisher.publish(self.site.cluster, _fact(number), version="archive", time=now())

        async with self._beside_plain() as plain:
            async with self._used("archive", count):
                began = time.monotonic()
                await asyncio.gather(*(publish() for _ in range(AT_ONCE)))
                published_seconds = time.monotonic() - began
                await until(self._archived, seconds=PATIENCE_SECONDS * 5, what="the archive", every=0.05)
                seconds = time.monotonic() - began
            told = {kind: await loaded.told(Published(at=tuple(at))) for kind, loaded in plain.items()}
        self.figures |= {"published_per_s": round(count / published_seconds), "archived_per_s": round(count / seconds)}
        for kind, each in told.items():
            # It is done when it has the last one, which was published last.
            per_s = count / (published_seconds + each.last_ms / 1e3)
            self.figures |= {
                f"archive_{kind}_per_s": round(per_s),
                f"archive_{kind}_missing": each.expected - each.told,
            }
        self.figures["archived_to_consumer"] = round(
            self.figures["archived_per_s"] / self.figures["archive_consumer_per_s"], 2
        )

    async def _archived(self) -> bool:
        consumer = await self.site.bus.jetstream().consumer_info(EVENT.name, EVENTS_ARCHIVE)
        return not consumer.num_pending and not consumer.num_ack_pending

    async def followers(self) -> None:
        """Many clients of the live stream at all gateways."""
        number = self.sizes.clients
        self.progress(f"{number} clients of the stream")
        each = STREAMS_EACH * len(self.site.gateway_urls)
        keys = [await self.site.admin.service_account_key(f"client-{n}") for n in range(-(-number // each))]
        path = f"/v1/clusters/{self.site.cluster.cluster}/events/stream"
        load = Followers(urls=tuple(f"{url}{path}" for url in self.site.gateway_urls), keys=tuple(keys), clients=number)
        await until(self._archived, seconds=PATIENCE_SECONDS, what="the archive", every=0.05)
        async with loading("events.followers", load) as clients, self._beside_plain() as plain:
            self.progress(f"{self.sizes.rate:g} events a second for {number} clients, for {self.sizes.seconds:g} s")
            async with self._used("stream", round(self.sizes.rate * self.sizes.seconds)):
                published = await self._publish(self.sizes.rate, "stream", [self.site.cluster])
            await self._compare("stream", clients, plain, published)

    async def webhooks(self) -> None:
        """Many webhooks of two tenants, each of which gets every event of its tenant."""
        number = self.sizes.webhooks
        self.progress(f"{number} webhooks")
        load = Receivers(port=free_port(), webhooks=number)
        async with loading("events.receivers", load) as receivers, self._beside_plain() as plain:
            urls = [f"http://127.0.0.1:{load.port}/{webhook}" for webhook in range(number)]
            async with _store(self.site) as store:
                for place, url in enumerate(urls):
                    await _put_webhook(store, self.site.cluster if place < WEBHOOKS_EACH else SECOND, url)
            refs = [self.site.cluster, SECOND][: -(-number // WEBHOOKS_EACH)]
            for ref in refs:
                # Only the subject counts: the events service reads the webhooks of the tenant again.
                await self.site.bus.publish(subjects.event(ref, "webhook.changed"), b"{}")
            await asyncio.sleep(QUIET_SECONDS)
            self.progress(f"{self.sizes.webhook_rate:g} events a second for {number} webhooks")
            async with self._used("webhook", round(self.sizes.webhook_rate * self.sizes.seconds)):
                published = await self._publish(self.sizes.webhook_rate, "webhook", refs)
            await self._compare("webhook", receivers, plain, published)

    async def _publish(self, rate: float, version: str, refs: list[ClusterRef]) -> Published:
        """Publish events one after the other at a rate. Returns when each was."""
        publisher, at = EventPublisher(self.site.bus, "proxy"), list[float]()
        began = time.monotonic()
        for number in range(round(rate * self.sizes.seconds)):
            await asyncio.sleep(began + number / rate - time.monotonic())
            at.append(time.monotonic())
            fact, moment = _fact(number), now()
            await asyncio.gather(*(publisher.publish(ref, fact, version=version, time=moment) for ref in refs))
        return Published(at=tuple(at))

    async def _compare(self, what: str, loaded: Loading, plain: Mapping[Kind, Loading], published: Published) -> None:
        """What the receivers were told beside what plain consumers were told. Waits until all is quiet."""
        await asyncio.sleep(QUIET_SECONDS)
        told = await loaded.told(published)
        self._note(what, told)
        for kind, each in plain.items():
            found = await each.told(published)
            self._note(f"{what}_{kind}", found)
            self.figures[f"{what}_p50_to_{kind}"] = round(told.p50_ms / max(found.p50_ms, 0.1), 1)

    def _note(self, what: str, told: Told) -> None:
        self.figures |= {
            f"{what}_p50_ms": told.p50_ms,
            f"{what}_p99_ms": told.p99_ms,
            f"{what}_missing": told.expected - told.told,
            f"{what}_load_cpu_s": told.cpu_seconds,
        }

    @asynccontextmanager
    async def _beside_plain(self) -> AsyncIterator[Mapping[Kind, Loading]]:
        """Plain consumers of the same events until the block ends."""
        settings = self.site.nats.settings("lab")
        assert settings.nats_user is not None
        assert settings.nats_password_file is not None
        kinds: tuple[Kind, ...] = ("subscription", "consumer")
        async with AsyncExitStack() as stack:
            yield {
                kind: await stack.enter_async_context(
                    loading(
                        "events.plain",
                        Plain(
                            url=settings.nats_url,
                            user=settings.nats_user,
                            password_file=settings.nats_password_file,
                            subject=subjects.event(self.site.cluster, KIND),
                            kind=kind,
                        ),
                    )
                )
                for kind in kinds
            }

    @asynccontextmanager
    async def _used(self, what: str, count: int) -> AsyncIterator[None]:
        """Note the CPU of each process of the site in the block, for each event, and its memory at the end."""
        processes = self._processes()
        before = {name: _cpu_seconds(each) for name, each in processes.items()}
        yield
        for name, each in processes.items():
            self.figures[f"{what}_{name}_cpu_ms"] = round((_cpu_seconds(each) - before[name]) * 1e3 / count, 3)
            # What would be free without it: not the pages of libraries that it shares with its replicas.
            self.figures[f"{what}_{name}_mb"] = round(each.memory_full_info().uss / MB, 1)

    def _processes(self) -> dict[str, psutil.Process]:
        found = {name: psutil.Process(each.pid) for name, each in self.site.services.items()}
        for each in psutil.Process().children():
            line = " ".join(each.cmdline())
            found |= {name: each for name, part in SERVERS.items() if part in line}
        found["bench"] = psutil.Process()
        return found


SERVERS = {"nats": "nats-server", "dynamodb": "ministack"}
"""The servers of the site, and what is in their command lines."""
QUIET_SECONDS = 3.0
"""How long the last event is waited for."""


@asynccontextmanager
async def _store(site: EventsSite) -> AsyncIterator[DynamoDBStore]:
    """The site's tables, with all rights."""
    os.environ.update(site.aws.environment())
    async with DynamoDBStore(table_prefix="clusterra-") as store:
        yield store


async def _put_webhook(store: DynamoDBStore, ref: ClusterRef, url: str) -> None:
    """Write a webhook as the gateway does, which would test each first, and 30 in a minute at most."""
    webhook = Webhook(
        id=f"wh_{secrets.token_hex(8)}",
        name="bench",
        url=url,
        kinds=(KIND,),
        secrets=(WebhookSecret(text="whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()),),
        deliver_from=DeliverFrom(id=secrets.token_hex(8), time=now()),
        created_by="bench",
        created_at=now(),
    )
    await store.write(Put(WEBHOOKS, webhook_key(ref.tenant, webhook.id), attributes_of(webhook), Absent()))


def _fact(number: int) -> NodeFact:
    return NodeFact(kind=KIND, node=f"e{number}")


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
