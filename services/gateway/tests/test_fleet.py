"""A cluster's fleet over time: found from the present and the events, and exact however they fall."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.events import Event, ScaleFact, ShapeChange, WorkerFact, WorkerKind, event_of
from clusterra_contracts.heartbeat import Heartbeat, Worker
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_gateway.clusters.fleet import MAX_EVENTS, FleetChange, ShapeCount, fleet_over_time
from clusterra_runtime.nats import bus
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st

REF = ClusterRef(tenant="acme", cluster="main")
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPEC = WorkerSpec(cpus=2, memory_mib=4096, features=("compute-xs",))
FLEET = "/v1/clusters/main/fleet"


def desired(counts: dict[str, int]) -> DesiredState:
    targets = tuple(ShapeTarget(shape=shape, worker=SPEC, replicas=count) for shape, count in counts.items())
    return DesiredState(generation=7, fence=1, snapshot_generation=1, decided_at=BEGIN, targets=targets)


def heartbeat(workers: dict[str, str], *failed: str) -> Heartbeat:
    return Heartbeat(
        generation=1,
        sent_at=BEGIN,
        agent_version="5",
        substrate="process",
        workers=tuple(
            Worker(name=name, shape=shape, phase="failed" if name in failed else "booting", started_at=BEGIN)
            for name, shape in workers.items()
        ),
    )


def decided(at: datetime, shape: str, before: int, after: int) -> Event:
    change = ShapeChange(shape=shape, replicas_before=before, replicas_after=after, reason="test")
    fact = ScaleFact(generation=1, fence=1, snapshot_generation=1, changes=(change,))
    return event_of("scaler", REF, fact, version=str(at.timestamp()), time=at)


def told(at: datetime, kind: WorkerKind, worker: str, shape: str) -> Event:
    fact = WorkerFact(kind=kind, worker=worker, shape=shape)
    return event_of("edge-agent", REF, fact, version=str(at.timestamp()), time=at)


STEPS = st.lists(
    st.tuples(st.sampled_from(("small", "large")), st.sampled_from(("decide", "start", "end")), st.integers(0, 5)),
    max_size=30,
)


@given(STEPS)
def test_the_past_is_found_from_the_present(steps: list[tuple[str, str, int]]) -> None:
    """A history is played forward and noted; going back from its end finds the same numbers."""
    replicas: dict[str, int] = {"small": 0, "large": 0}
    workers: dict[str, str] = {}
    events: list[Event] = []
    noted: list[FleetChange] = []
    for number, (shape, step, value) in enumerate(steps):
        at = BEGIN + timedelta(seconds=number)
        before = (replicas[shape], sum(each == shape for each in workers.values()))
        if step == "decide":
            events.append(decided(at, shape, replicas[shape], value))
            replicas[shape] = value
        elif step == "start":
            workers[f"{shape}-{number}"] = shape
            events.append(told(at, "worker.started", f"{shape}-{number}", shape))
        elif ended := next((name for name, each in workers.items() if each == shape), None):
            del workers[ended]
            events.append(told(at, ("worker.stopped", "worker.failed", "worker.lost")[value % 3], ended, shape))
        count = (replicas[shape], sum(each == shape for each in workers.values()))
        if count != before:
            noted.append(FleetChange(at=at, shape=shape, desired=count[0], live=count[1]))

    first, changes, last = fleet_over_time(
        desired(replicas), heartbeat(workers), reversed(events), after=BEGIN - timedelta(hours=1)
    )

    assert list(changes) == noted
    assert all((each.desired, each.live) == (0, 0) for each in first)
    assert {each.shape: each.desired for each in last} == replicas


def test_before_the_first_report_the_numbers_are_unknown() -> None:
    first, changes, last = fleet_over_time(None, None, [told(BEGIN, "worker.started", "small-1", "small")], after=BEGIN)

    assert (first, changes, last) == ((), (), ())


def test_a_worker_that_ended_by_itself_is_not_live_although_it_is_reported() -> None:
    _, changes, last = fleet_over_time(
        desired({"small": 1}),
        heartbeat({"small-1": "small"}, "small-1"),
        [told(BEGIN, "worker.failed", "small-1", "small")],
        after=BEGIN,
    )

    assert last == (ShapeCount(shape="small", desired=1, live=0),)
    assert [(each.desired, each.live) for each in changes] == [(1, 0)]


async def read(world: World, **parameters: str) -> Any:
    browser = await world.login("ada@acme.example")
    async with browser.get(FLEET, params=parameters) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def test_the_fleet_of_a_cluster(world: World) -> None:
    ref, at = world.acme.ref, now()
    await bus.publish_durable(world.client, subjects.scale_desired(ref), desired({"small": 2}), message_id="d1")
    await bus.publish_durable(world.client, subjects.heartbeat(ref), heartbeat({"small-1": "small"}), message_id="h1")
    world.acme.events.archived = [
        told(at - timedelta(minutes=1), "worker.started", "small-1", "small"),
        decided(at - timedelta(minutes=2), "small", 0, 2),
    ]

    found = await read(world)

    assert found["complete"] is True
    assert found["now"] == [{"shape": "small", "desired": 2, "live": 1}]
    assert found["before"] == [{"shape": "small", "desired": 0, "live": 0}]
    assert [(each["desired"], each["live"]) for each in found["changes"]] == [(2, 0), (2, 1)]
    (asked,) = world.acme.events.histories
    assert (asked.kinds, asked.newest_first) == (("scale.decided", "worker.*"), True)


async def test_a_busy_fleet_is_told_in_part(world: World) -> None:
    at = now()
    world.acme.events.archived = [
        decided(at - timedelta(seconds=number), "small", number + 1, number) for number in range(MAX_EVENTS + 500)
    ]

    found = await read(world, after=(at - timedelta(days=2)).isoformat())

    assert found["complete"] is False
    assert datetime.fromisoformat(found["after"]) == world.acme.events.archived[MAX_EVENTS - 1].time
    assert len(found["changes"]) == MAX_EVENTS


@pytest.mark.parametrize(("days", "told_days"), [(-1, 0), (40, 31), (500_000, 31)])
async def test_the_time_that_is_told_has_bounds(world: World, days: int, told_days: int) -> None:
    asked = now() - timedelta(days=days)

    found = await read(world, after=asked.isoformat())

    told = datetime.fromisoformat(found["as_of"]) - datetime.fromisoformat(found["after"])
    assert told == timedelta(days=told_days)
