"""How the time of a cluster's workers divides by hour."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.events import Event, Fact, JobFact, JobKind, NodeFact, WorkerFact, event_of
from clusterra_contracts.heartbeat import Worker, WorkerPhase
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot, RunningJob
from clusterra_gateway.clusters import fleet_hours
from clusterra_gateway.clusters.fleet_hours import MAX_HOURS, Span, hours_of
from clusterra_runtime.nats import bus
from gateway_world import World
from test_fleet import heartbeat

REF = ClusterRef(tenant="acme", cluster="main")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PATH = "/v1/clusters/main/fleet/hours"


def at(minutes: float) -> datetime:
    """So many minutes after noon."""
    return NOON + timedelta(minutes=minutes)


PERIOD = Span(at(0), at(180))


def told(minutes: float, fact: Fact) -> Event:
    return event_of("test", REF, fact, version=f"{minutes}-{fact!r}"[:20], time=at(minutes))


def ended(minutes: float, name: str, started: float) -> Event:
    return told(minutes, WorkerFact(kind="worker.stopped", worker=name, shape="small", started_at=at(started)))


def registered(minutes: float, name: str) -> Event:
    return told(minutes, NodeFact(kind="node.registered", node=name))


def job(minutes: float, kind: JobKind, started: float | None, *nodes: str) -> Event:
    fact = JobFact(
        kind=kind,
        job_id="7",
        name="x",
        user="u",
        uid=1,
        partition="main",
        state="COMPLETED",
        nodes=nodes,
        submitted_at=at(-600),
        started_at=None if started is None else at(started),
        ended_at=at(minutes) if kind == "job.completed" else None,
    )
    return told(minutes, fact)


def worker(name: str, started: float, phase: WorkerPhase = "running") -> Worker:
    return Worker(name=name, shape="small", phase=phase, started_at=at(started))


def running(started: float, *nodes: str) -> RunningJob:
    return RunningJob(job_id="9", uid=1, user="u", nodes=nodes, cpus=1, started_at=at(started))


def minutes(events: list[Event], workers: list[Worker], jobs: list[RunningJob]) -> list[tuple[float, float, float]]:
    """Of each hour: booting, busy and idle, in minutes."""
    return [
        (each.booting_seconds / 60, each.busy_seconds / 60, each.idle_seconds / 60)
        for each in hours_of(events, workers, jobs, PERIOD)
    ]


def test_a_life_divides_into_booting_jobs_and_idle_time() -> None:
    events = [registered(15, "w"), job(100, "job.completed", 50, "w"), ended(130, "w", 5)]

    assert minutes(events, [], []) == [(10, 10, 35), (0, 40, 20), (0, 0, 10)]
    assert minutes(events[::-1], [], []) == minutes(events, [], []), "in any order"


def test_what_began_before_the_period_counts_within_it() -> None:
    events = [job(30, "job.completed", -300, "old"), ended(90, "old", -400)]

    assert minutes(events, [worker("now", -500)], [running(-100, "now")]) == [(0, 90, 30), (0, 60, 30), (0, 60, 0)]


def test_what_goes_on_counts_until_now() -> None:
    events = [registered(60, "w"), job(120, "job.running", 120, "w")]

    assert minutes(events, [worker("w", 30), worker("new", 150, "booting"), worker("bad", 0, "failed")], []) == [
        (30, 0, 0),
        (0, 0, 60),
        (30, 60, 0),
    ]


def test_jobs_beside_each_other_keep_a_worker_busy_once() -> None:
    jobs = [running(0, "a", "b"), running(30, "a")]

    assert minutes([], [worker("a", -10), worker("b", -10)], jobs) == [(0, 120, 0)] * 3


def test_a_run_that_is_requeued_has_ended() -> None:
    events = [job(60, "job.running", 60, "w"), job(90, "job.requeued", None)]

    assert minutes(events, [worker("w", -10)], []) == [(0, 0, 60), (0, 30, 30), (0, 0, 60)]


def test_a_node_that_registers_again_has_not_booted_until_then() -> None:
    events = [registered(20, "old"), registered(20, "young")]

    assert minutes(events, [worker("old", -100), worker("young", -10)], [])[0] == (20, 0, 100)


def test_an_hour_without_workers_has_no_time() -> None:
    assert minutes([ended(70, "w", 61)], [], []) == [(0, 0, 0), (9, 0, 0), (0, 0, 0)]


async def hear(world: World, **queue: Any) -> None:
    """The cluster has a worker, and an empty queue of now apart from what is given."""
    ref, beat = world.acme.ref, heartbeat({"small-1": "small"})
    given = {"generation": 1, "taken_at": now(), "pending": (), "running": (), "nodes": (), **queue}
    await bus.publish_durable(world.client, subjects.heartbeat(ref), beat, message_id=uuid4().hex)
    await bus.publish_durable(
        world.client, subjects.job_pending(ref), QueueSnapshot.model_validate(given), message_id=uuid4().hex
    )


async def read(world: World, **query: Any) -> Any:
    browser = await world.login("ada@acme.example")
    async with browser.get(PATH, params=query) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


@pytest.mark.parametrize(("query", "hours"), [({}, MAX_HOURS), ({"hours": 3}, 3)])
async def test_the_hours_of_a_cluster(world: World, query: dict[str, int], hours: int) -> None:
    await hear(world)

    found = await read(world, **query)

    assert (found["complete"], len(found["hours"])) == (True, hours)
    assert all(each["idle_seconds"] == 3600 for each in found["hours"][:-1]), "there since long ago"
    begins = [datetime.fromisoformat(each["begin"]) for each in found["hours"]]
    assert begins[-1] <= now() < begins[-1] + timedelta(hours=1, minutes=2)
    (asked,) = world.acme.events.histories
    assert asked.newest_first
    assert "job.completed" in (asked.kinds or ())


@pytest.mark.parametrize("queue", [{"taken_at": now() - timedelta(hours=1)}, {"running": None}, None])
async def test_without_a_queue_of_now_nobody_knows_which_workers_have_jobs(
    world: World, queue: dict[str, Any] | None
) -> None:
    await hear(world, **queue or {})
    if queue is None:
        await bus.store(world.client, subjects.job_pending(world.acme.ref), b"unreadable", {})

    assert await read(world) | {"as_of": ""} == {"as_of": "", "complete": False, "hours": []}

    await hear(world, generation=2)

    assert (await read(world))["hours"], "that nobody knew is not kept"


async def test_an_answer_is_read_once_for_all_who_ask_and_kept(world: World) -> None:
    await hear(world)

    first, second = await asyncio.gather(read(world, hours=3), read(world, hours=3))

    assert first == second == await read(world, hours=3)
    assert len(world.acme.events.histories) == 1
    assert len((await read(world, hours=4))["hours"]) == 4


async def test_jobs_on_very_many_nodes_are_read_as_far_as_there_is_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_hours, "MAX_SPANS", 5)
    await hear(world)
    at_present = now()
    facts = [
        JobFact(
            kind="job.completed",
            job_id=f"{number + 1}",
            name="x",
            user="u",
            uid=1,
            partition="main",
            state="COMPLETED",
            nodes=("small-1", "small-2"),
            submitted_at=at_present - timedelta(hours=9),
        )
        for number in range(3)
    ]
    times = [at_present - timedelta(seconds=number + 1) for number in range(3)]
    world.acme.events.archived = [
        event_of("proxy", REF, fact, version="1", time=time) for fact, time in zip(facts, times, strict=True)
    ]

    found = await read(world)

    assert not found["complete"]
    assert datetime.fromisoformat(found["hours"][0]["begin"]) == times[1].replace(minute=0, second=0, microsecond=0)


async def test_without_a_heartbeat_there_are_no_hours(world: World) -> None:
    browser = await world.login("chief@rival.example")
    async with browser.get("/v1/clusters/secret/fleet/hours") as answer:
        assert await answer.json() | {"as_of": ""} == {"as_of": "", "complete": False, "hours": []}
    async with browser.get("/v1/clusters/secret/fleet/hours?hours=49") as answer:
        assert answer.status == 400
