"""Lists name a position of the stream of events: what happens while they are read comes after it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.session_records import SessionRecords
from clusterra_gateway.bus.event_positions import LAG, REMEMBERED, EventPositions
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.workflows.workflow_records import WorkflowRecords
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from gateway_world import World
from sse_reader import sse_reader
from test_events import STREAM, nodes, publish_node_down
from test_workers import heartbeat, queue, worker

CLUSTER = "/v1/clusters/main"
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("path", "read_by", "method"),
    [
        (f"{CLUSTER}/jobs", SlurmRequests, "jobs"),
        (f"{CLUSTER}/sessions", SessionRecords, "of_member"),
        (f"{CLUSTER}/runs", WorkflowRecords, "list"),
        ("/v1/schedules", ScheduleRecords, "of_tenant"),
    ],
)
async def test_what_happens_while_a_list_is_read_comes_after_its_position(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str, read_by: type, method: str
) -> None:
    boss = await world.login("boss@acme.example")
    read = getattr(read_by, method)

    async with sse_reader(boss, STREAM) as reader:
        await publish_node_down(world, "before")
        await reader.until_events(1)

        async def slowed(*given: Any, **named: Any) -> Any:
            await publish_node_down(world, "meanwhile")
            await reader.until_events(2)  # so the gateway's feed has it, too
            return await read(*given, **named)

        monkeypatch.setattr(read_by, method, slowed)
        async with boss.get(path) as answer:
            assert answer.status == 200, await answer.text()
            position = answer.headers["Event-Position"]

    before, meanwhile = (int(event.id) for event in reader.events)
    assert before <= int(position) < meanwhile
    async with sse_reader(boss, STREAM, last_id=position) as resumed:
        await resumed.until_events(1)
    assert nodes(resumed.events) == ["meanwhile"]


@pytest.mark.parametrize("path", [f"{CLUSTER}/workers", f"{CLUSTER}/fleet"])
async def test_a_heartbeat_reflects_the_events_before_it_alone(world: World, path: str) -> None:
    boss = await world.login("boss@acme.example")

    async def tell() -> None:
        told = heartbeat(worker("compute-xs-1"))
        await bus.publish_durable(world.client, subjects.heartbeat(world.acme.ref), told, message_id=uuid4().hex)
        await bus.publish_durable(world.client, subjects.job_pending(world.acme.ref), queue(), message_id=uuid4().hex)

    async def position() -> int:
        async with boss.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return int(answer.headers.get("Event-Position", 0))

    async with sse_reader(boss, STREAM) as reader:
        await publish_node_down(world, "n1")
        await reader.until_events(1)
        event = int(reader.events[0].id)
        await tell()
        at_once = await position()

        async def reflected() -> bool:
            await tell()
            return await position() >= event

        await until(reflected, seconds=90, what="the position to reach the event", every=0.2)

    assert at_once < event, "the heartbeat may have been made before the event"


def test_a_state_reflects_what_was_stored_before_it_was_made() -> None:
    positions = EventPositions()
    for second, position in ((0, 10), (5, 17), (10, 30)):
        positions.note(BEGIN + timedelta(seconds=second), position)

    assert positions.reflected_at(BEGIN) is None, "it may have been made before all that is known"
    assert positions.reflected_at(BEGIN + LAG) == 10
    assert positions.reflected_at(BEGIN + timedelta(seconds=9) + LAG) == 17
    assert positions.reflected_at(now() + timedelta(days=1)) == 30


def test_the_moments_of_a_stream_that_was_made_again_are_forgotten() -> None:
    positions = EventPositions()
    positions.note(BEGIN, 900)
    positions.note(BEGIN + timedelta(seconds=1), 3)

    assert positions.reflected_at(BEGIN + LAG) is None
    assert positions.reflected_at(BEGIN + timedelta(seconds=1) + LAG) == 3


def test_the_newest_moments_are_remembered_alone() -> None:
    positions = EventPositions()
    for number in range(REMEMBERED + 1):
        positions.note(BEGIN + timedelta(seconds=number), number)

    assert positions.reflected_at(BEGIN + LAG) is None
    assert positions.reflected_at(BEGIN + timedelta(seconds=REMEMBERED) + LAG) == REMEMBERED
