"""The ledger in the service: on real NATS and DynamoDB, over a kill, and with everything told twice."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.events import Event
from clusterra_contracts.heartbeat import Heartbeat, Worker
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.costs import CostPage, ReadCosts
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.nats.rpc import RpcFailed, call
from clusterra_runtime.settings import ServiceSettings

from .events_process import started
from .ledger_histories import START, ModelWorker, job_events, worker_events

REF = ClusterRef(tenant="acme", cluster="main")
ADMIN = Viewer(user=SlurmUser(name="boss", uid=20009, gid=20009), admin=True)
SHAPE = Shape(name="compute-xs", family="compute", size="xs", vcpu=2, memory_gib=4, usd_per_hour=1.0)
BINDING = ClusterBinding(
    name="main",
    slurmrestd_url="http://127.0.0.1:1",
    jwt_key="file:/none",
    operator=SlurmUser(name="clusterra", uid=5000, gid=5000),
    catalogue=Catalogue(shapes=(SHAPE,)),
)
HOUR = 3_600_000_000


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    yield client
    await bus.close(client)


async def costs(client: Client, first: datetime, last: datetime) -> CostPage | None:
    request = ReadCosts(viewer=ADMIN, first=first.date(), last=last.date(), by=("job",))
    try:
        return await call(client, subjects.ledger(REF, "costs"), request, CostPage, timeout_seconds=2)
    except RpcFailed:  # the service does not serve yet
        return None


async def tell(client: Client, event: Event, message_id: str) -> None:
    await bus.publish_durable(client, subjects.event(REF, event.kind), event, message_id=message_id)


async def test_everything_counts_once_over_a_kill_and_a_second_telling(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    workers = [ModelWorker(f"compute-xs-{n}", 0, 4 * HOUR, [(0, 1_000_000)], cpus=4) for n in range(3)]
    events = [event for worker in workers for event in worker_events(worker)]
    for job in range(1, 31):
        events += job_events(job, 0, (workers[job % 3].name,), (job * HOUR // 20, job * HOUR // 20 + HOUR), (1, 100))
    end = START + timedelta(days=1)

    process = await started(environment, tmp_path)
    try:
        for event in events[: len(events) // 2]:
            await tell(client, event, event.id)
        process.kill()
        await process.stop()
        process = await started(environment, tmp_path)
        for event in events:
            await tell(client, event, f"again-{event.id}")

        async def complete() -> CostPage | None:
            page = await costs(client, START, end)
            if page is None or page.shares_micro_usd + page.overhead_micro_usd < 12_000_000:
                return None
            return page if len([row for row in page.rows if row.purpose == "job"]) == 30 else None

        page = await until(complete, seconds=60, what="all costs", every=0.2, process=process)
    finally:
        await process.stop()

    assert sum(row.micro_usd or 0 for row in page.rows) == 12_000_000
    assert not page.unknown


async def test_the_price_of_a_worker_is_told_from_its_heartbeats(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    await put_binding(client, REF, BINDING)
    began = now() - timedelta(hours=2)
    worker = Worker(name="compute-xs-9", shape="compute-xs", phase="running", started_at=began)
    process = await started(environment, tmp_path)
    generation = 0
    try:

        async def billed() -> CostPage | None:
            nonlocal generation
            generation += 1
            heartbeat = Heartbeat(
                generation=generation, sent_at=now(), agent_version="1", substrate="process", workers=(worker,)
            )
            await bus.publish(client, subjects.heartbeat(REF), heartbeat)
            page = await costs(client, began, now())
            return page if page is not None and page.overhead_micro_usd else None

        page = await until(billed, seconds=60, what="the bill", every=0.5, process=process)
    finally:
        await process.stop()

    hours = (page.as_of.astimezone(UTC) - began) / timedelta(hours=1)
    assert page.overhead_micro_usd == pytest.approx(hours * 1_000_000, abs=2)
    assert [row.purpose for row in page.rows] == ["boot"]
