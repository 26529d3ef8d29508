"""The live workers of a cluster: what each does and costs, from the heartbeat and the queue."""

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.heartbeat import Heartbeat, NodeClaim, Price, Worker, WorkerPhase
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.queue import NodeState, QueueSnapshot, RunningJob
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_gateway.clusters.worker_states import WorkerRow, by_shape, rows_of
from clusterra_runtime.nats import bus
from gateway_world import World

WORKERS = "/v1/clusters/main/workers"
CATALOGUE = Catalogue(
    shapes=tuple(
        Shape(name=f"compute-{size}", family="compute", size=size, vcpu=2, memory_gib=4, usd_per_hour=usd)
        for size, usd in (("xs", 0.1), ("small", 0.25))
    )
)
BINDING = ClusterBinding(
    name="main",
    slurmrestd_url="http://127.0.0.1:1",
    jwt_key="file:/dev/null",
    operator=SlurmUser(name="operator", uid=64031, gid=64031),
    catalogue=CATALOGUE,
)


def worker(name: str, phase: WorkerPhase = "running", **more: Any) -> Worker:
    shape = name.rpartition("-")[0]
    return Worker(name=name, shape=shape, phase=phase, started_at=now() - timedelta(minutes=5), **more)


def heartbeat(*workers: Worker, **more: Any) -> Heartbeat:
    return Heartbeat(generation=1, sent_at=now(), agent_version="5", substrate="process", workers=workers, **more)


def node(name: str, *states: str, used: int = 0, **more: Any) -> NodeState:
    return NodeState(
        name=name, states=states, cpus=2, cpus_allocated=used, memory_mib=4000, memory_allocated_mib=0, **more
    )


def running(job_id: str, *nodes: str, uid: int = 20001) -> RunningJob:
    return RunningJob(job_id=job_id, uid=uid, user="x", nodes=nodes, cpus=1, started_at=now())


def queue(*nodes: NodeState, jobs: tuple[RunningJob, ...] = (), **more: Any) -> QueueSnapshot:
    return QueueSnapshot.model_validate(
        {"generation": 1, "taken_at": now(), "pending": (), "running": jobs, "nodes": nodes, **more}
    )


def row(found: Worker, *nodes: NodeState, jobs: tuple[RunningJob, ...] = ()) -> WorkerRow:
    (only,) = rows_of(heartbeat(found), queue(*nodes, jobs=jobs), BINDING)
    return only


NAME = "compute-xs-1"


@pytest.mark.parametrize(
    ("phase", "states", "used", "state"),
    [
        ("booting", None, 0, "booting"),
        ("running", None, 0, "booting"),
        ("booting", ("IDLE", "NOT_RESPONDING"), 0, "booting"),
        ("booting", ("IDLE",), 0, "idle"),
        ("running", ("IDLE",), 0, "idle"),
        ("running", ("MIXED",), 1, "busy"),
        ("running", ("IDLE", "COMPLETING"), 0, "busy"),
        ("running", ("MIXED", "DRAIN"), 1, "draining"),
        ("running", ("DOWN",), 0, "down"),
        ("terminating", ("IDLE", "DRAIN"), 0, "terminating"),
        ("failed", ("DOWN",), 0, "failed"),
    ],
)
def test_what_a_worker_does(phase: WorkerPhase, states: tuple[str, ...] | None, used: int, state: str) -> None:
    nodes = () if states is None else (node(NAME, *states, used=used),)

    assert row(worker(NAME, phase), *nodes).state == state


def test_a_worker_with_a_job_is_busy_although_its_node_is_told_idle() -> None:
    found = row(worker(NAME), node(NAME, "IDLE"), jobs=(running("1", NAME, "other"),))

    assert (found.state, [job.job_id for job in found.jobs]) == ("busy", ["1"])


@pytest.mark.parametrize("lists", [None, queue(nodes=None)])
def test_without_slurms_nodes_only_the_edge_tells(lists: QueueSnapshot | None) -> None:
    rows = rows_of(heartbeat(worker("compute-xs-1"), worker("compute-xs-2", "booting")), lists, BINDING)

    assert [each.state for each in rows] == [None, "booting"]


def test_a_worker_says_since_when_it_boots_or_is_idle() -> None:
    idle_since = now() - timedelta(seconds=9)
    booting = worker(NAME, "booting")

    assert row(booting).since == booting.started_at
    assert row(worker(NAME), node(NAME, "IDLE", idle_since=idle_since)).since == idle_since
    assert row(worker(NAME), node(NAME, "MIXED", used=1)).since is None


def test_the_price_is_that_of_the_machine_where_the_edge_knows_it() -> None:
    claim = NodeClaim(
        name="c",
        instance_type="m7i.large",
        lifecycle="spot",
        zone="a",
        node_name="machine-1",
        launched=True,
        billable_from=now(),
    )
    told = heartbeat(
        worker("compute-xs-1", node="machine-1"),
        worker("compute-xs-2", node="machine-2"),
        node_claims=(claim,),
        prices=(Price(instance_type="m7i.large", lifecycle="spot", zone="a", usd_per_hour=0.0333),),
    )

    known, unknown = rows_of(told, None, BINDING)

    assert (known.usd_per_hour, known.price_source) == (Decimal("0.033300"), "machine")
    assert (unknown.usd_per_hour, unknown.price_source) == (None, None)
    (shape,) = by_shape([known, unknown])
    assert (shape.usd_per_hour, shape.unpriced) == (Decimal("0.033300"), 1)


def test_the_sums_by_shape_have_no_worker_that_failed() -> None:
    workers = [
        *(worker(f"compute-xs-{n}") for n in range(3)),
        worker("compute-small-1"),
        worker("compute-small-2", "failed"),
        worker("unknown-1"),
    ]
    nodes = [node("compute-xs-0", "IDLE"), node("compute-small-1", "MIXED", used=1), node("unknown-1", "IDLE")]

    shapes = by_shape(rows_of(heartbeat(*workers), queue(*nodes), BINDING))

    assert [(each.shape, each.workers, each.by_state, str(each.usd_per_hour), each.unpriced) for each in shapes] == [
        ("compute-small", 1, {"busy": 1}, "0.250000", 0),
        ("compute-xs", 3, {"idle": 1, "booting": 2}, "0.300000", 0),
        ("unknown", 1, {"idle": 1}, "0", 1),
    ]


async def read(world: World, email: str, path: str = WORKERS, **parameters: Any) -> Any:
    browser = await world.login(email)
    async with browser.get(path, params=parameters) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def publish(world: World, told: Heartbeat, listed: QueueSnapshot | None) -> None:
    ref = world.acme.ref
    await bus.publish_durable(world.client, subjects.heartbeat(ref), told, message_id=uuid4().hex)
    if listed is not None:
        await bus.publish_durable(world.client, subjects.job_pending(ref), listed, message_id=uuid4().hex)


async def test_a_member_sees_the_workers_and_of_their_jobs_only_their_own(world: World) -> None:
    async with (await world.login("ada@acme.example")).get("/v1/users/me") as answer:
        uid = (await answer.json())["uid"]
    jobs = (running("1", "compute-xs-1", uid=uid), running("2", "compute-xs-1", uid=uid + 1))
    listed = queue(node("compute-xs-1", "ALLOCATED", used=2), jobs=jobs)
    await publish(world, heartbeat(worker("compute-xs-1"), worker("compute-xs-2", "booting")), listed)

    found = await read(world, "ada@acme.example")
    of_boss = await read(world, "boss@acme.example")

    first, second = found["workers"]
    assert (first["state"], first["running_jobs"], first["job_ids"]) == ("busy", 2, ["1"])
    assert (first["usd_per_hour"], first["price_source"], first["cpus_allocated"]) == ("0.100000", "catalogue", 2)
    assert (second["state"], second["cpus"]) == ("booting", None)
    assert found["shapes"] == [
        {
            "shape": "compute-xs",
            "workers": 2,
            "by_state": {"busy": 1, "booting": 1},
            "usd_per_hour": "0.200000",
            "unpriced": 0,
        }
    ]
    assert found["queue_as_of"] is not None
    assert of_boss["workers"][0]["job_ids"] == ["1", "2"]


async def test_many_workers_come_in_pages(world: World) -> None:
    await publish(world, heartbeat(*(worker(f"compute-xs-{n}") for n in range(5))), None)

    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await read(world, "ada@acme.example", limit="2", **cursor)
        names += [each["name"] for each in page["workers"]]
        assert page["total"] == 5
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}

    assert names == [f"compute-xs-{n}" for n in range(5)]


async def test_a_queue_that_is_too_old_tells_nothing(world: World) -> None:
    old = queue(node("compute-xs-1", "IDLE"), taken_at=now() - timedelta(minutes=10))
    await publish(world, heartbeat(worker("compute-xs-1")), old)

    found = await read(world, "ada@acme.example")

    assert (found["queue_as_of"], found["workers"][0]["state"]) == (None, None)


async def test_before_the_first_heartbeat_no_workers_are_known(world: World) -> None:
    found = await read(world, "chief@rival.example", "/v1/clusters/secret/workers")

    assert (found["workers"], found["total"], found["as_of"]) == (None, 0, None)
