"""The proxy's own client works on the stand-in as on a slurmrestd."""

from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.shapes import WorkerSpec
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import NotFound
from clusterra_proxy.slurmrestd.future_nodes import FutureNodeRecords
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld
from fleet.http_server import http_server
from fleet.queue import Queue, Request
from fleet.recorded import Answers
from fleet.slurmrestd import StandIn

WORKER = WorkerSpec(cpus=4, memory_mib=8192, features=("general",))


@pytest.fixture
async def stand_in() -> AsyncIterator[tuple[StandIn, Queue, Slurmrestd]]:
    answers = Answers()
    served, queue = StandIn(answers, lambda _: None), Queue(answers)
    served.queues["c1"] = queue
    async with http_server(served.handle) as url, Slurmrestd(f"{url}/c1") as slurmrestd:
        yield served, queue, slurmrestd


async def test_jobs_and_nodes_are_read(stand_in: tuple[StandIn, Queue, Slurmrestd]) -> None:
    _, queue, slurmrestd = stand_in
    slurmctld = Slurmctld(slurmrestd)
    node = queue.register("w1", WORKER, 1_600_000_000)
    started, waiting = (queue.submit(Request(2, 1024, "general"), 1_600_000_000) for _ in range(2))
    queue.start(started, node, 1_600_000_001)

    states = await slurmctld.states("token")
    listed = await slurmctld.jobs("token")
    (one,) = await slurmctld.job("token", str(waiting.job_id))

    assert listed is not None
    assert [record.state for record in listed[1]] == ["RUNNING", "PENDING"]
    assert len(states.jobs) == 2
    assert one.cpus == 2
    assert (await slurmctld.node("token", "w1")).alloc_cpus == 2
    assert await slurmctld.jobs("token", changed_after=listed[2]) is None
    with pytest.raises(NotFound):
        await slurmctld.job("token", "99")


async def test_a_long_list_arrives_whole(stand_in: tuple[StandIn, Queue, Slurmrestd]) -> None:
    _, queue, slurmrestd = stand_in
    for _ in range(300):
        queue.submit(Request(1, 1024, "general"), 1_600_000_000)

    listed = await Slurmctld(slurmrestd).jobs("token")

    assert listed is not None
    assert len(listed[1]) == 300


async def test_nodes_are_drained_resumed_and_deleted(stand_in: tuple[StandIn, Queue, Slurmrestd]) -> None:
    _, queue, slurmrestd = stand_in
    slurmctld = Slurmctld(slurmrestd)
    queue.register("w1", WORKER, 1_600_000_000)

    await slurmctld.update_node("token", "w1", ["DRAIN"], "idle")
    drained = await slurmctld.node("token", "w1")
    await slurmctld.update_node("token", "w1", ["RESUME"])

    assert (drained.draining, drained.reason) == (True, "idle")
    assert not (await slurmctld.node("token", "w1")).draining
    await slurmctld.delete_node("token", "w1")
    with pytest.raises(NotFound):
        await slurmctld.update_node("token", "w1", ["DRAIN"], "idle")


async def test_placeholders_are_kept(stand_in: tuple[StandIn, Queue, Slurmrestd]) -> None:
    _, _, slurmrestd = stand_in
    future = FutureNodeRecords(slurmrestd, Slurmctld(slurmrestd).version)

    await future.create("token", "NodeName=placeholder-a-[1-3] CPUs=4 RealMemory=8192 State=FUTURE")
    await future.amend("token", "placeholder-a-[1-3]", "")
    await future.delete("token", "placeholder-a-2")

    assert [(node.name, node.extra) for node in await future.list("token")] == [
        ("placeholder-a-1", OPEN),
        ("placeholder-a-3", OPEN),
    ]
