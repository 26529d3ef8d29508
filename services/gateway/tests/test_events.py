"""A cluster's events over HTTP: pages of the archive, and the live stream that clients can resume."""

import asyncio
import itertools
from contextlib import AsyncExitStack
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from clusterra_contracts.bus import subjects
from clusterra_contracts.events import AdminFact, Event, JobFact, NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.bus.event_feed import StreamedEvent, SubscriberTooSlow, Subscription, Told
from clusterra_gateway.identity.access.limits import MAX_STREAMS
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import nats_server
from clusterra_lab.parts.sse import ServerSentEvent
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.events import EventPublisher
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn
from prometheus_client import REGISTRY
from sse_reader import sse_reader

EVENTS = "/v1/clusters/main/events"
STREAM = f"{EVENTS}/stream"

_versions = itertools.count()


async def publish_node_down(world: World, node: str, ref: ClusterRef | None = None) -> None:
    version = f"{now().isoformat()}-{next(_versions)}"
    publisher = EventPublisher(world.client, "proxy")
    await publisher.publish(ref or world.acme.ref, NodeFact(kind="node.down", node=node), version=version, time=now())


def job_fact(job_id: str, uid: int) -> JobFact:
    return JobFact(
        kind="job.running",
        job_id=job_id,
        name="x",
        user=f"u{uid}",
        uid=uid,
        partition="main",
        state="RUNNING",
        submitted_at=now(),
    )


def nodes(events: list[ServerSentEvent]) -> list[str]:
    """The nodes that the unnamed events are about."""
    return [orjson.loads(event.data)["data"]["node"] for event in events if event.event == "message"]


async def test_filters_reach_the_archive(world: World) -> None:
    browser = await world.login("boss@acme.example")
    query = "kind=job.failed,node.*&subject=7&after=2026-01-01T00:00:00Z&newest_first=true&limit=9&cursor=x"

    async with browser.get(f"{EVENTS}?{query}") as answer:
        assert answer.status == 200
        assert await answer.json() == {"events": [], "cursor": None, "kept_from": None}

    (asked,) = world.acme.events.histories
    assert (asked.kinds, asked.subject, asked.newest_first) == (("job.failed", "node.*"), "7", True)
    assert (asked.limit, asked.cursor, asked.before) == (9, "x", None)


async def test_the_stream_has_only_the_clusters_own_events(world: World) -> None:
    boss, chief = await world.login("boss@acme.example"), await world.login("chief@rival.example")

    async with sse_reader(boss, STREAM) as mine, sse_reader(chief, "/v1/clusters/secret/events/stream") as theirs:
        await publish_node_down(world, "n1")
        await publish_node_down(world, "r1", world.rival.ref)
        await publish_node_down(world, "n2")
        await mine.until_events(2)
        await theirs.until_events(1)

    assert nodes(mine.events) == ["n1", "n2"]
    assert nodes(theirs.events) == ["r1"]
    ids = [int(event.id) for event in mine.events]
    assert ids == sorted(ids)
    event = Event.model_validate_json(mine.events[0].data)
    assert event.type == "cloud.clusterra.node.down"


async def test_members_see_the_events_of_their_own_jobs_alone(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    async with ada.get("/v1/users/me") as answer:
        uid = (await answer.json())["uid"]
    publisher = EventPublisher(world.client, "proxy")
    facts: list[JobFact | NodeFact] = [
        job_fact("1", uid + 1),
        NodeFact(kind="node.down", node="n1"),
        job_fact("2", uid),
    ]
    world.acme.events.archived = [event_of("proxy", world.acme.ref, fact, version="1", time=now()) for fact in facts]

    async with sse_reader(ada, STREAM) as hers, sse_reader(boss, STREAM) as all_events:
        for fact in facts:
            await publisher.publish(world.acme.ref, fact, version="1", time=now())
        await all_events.until_events(3)
        await hers.until_events(1)
    async with sse_reader(ada, STREAM, last_id=int(all_events.events[0].id) - 1) as resumed:
        await resumed.until_events(1)
    async with ada.get(EVENTS) as answer:
        page = await answer.json()

    assert [orjson.loads(event.data)["subject"] for event in all_events.events] == ["1", "n1", "2"]
    assert [orjson.loads(event.data)["subject"] for event in hers.events] == ["2"]
    assert [orjson.loads(event.data)["subject"] for event in resumed.events] == ["2"]
    assert [event["subject"] for event in page["events"]] == ["2"], "also from an archive that knows no viewer"


async def test_a_list_of_jobs_says_where_the_stream_goes_on(world: World) -> None:
    browser = await world.login("boss@acme.example")
    async with sse_reader(browser, STREAM) as reader:
        await publish_node_down(world, "n1")
        await reader.until_events(1)
    before = reader.events[-1].id

    async with browser.get("/v1/clusters/main/jobs") as answer:
        position, etag = answer.headers["Event-Position"], answer.headers["ETag"]
    await publish_node_down(world, "n2")
    async with sse_reader(browser, STREAM, last_id=position) as resumed:
        await resumed.until_events(1)
    async with browser.get("/v1/clusters/main/jobs", headers={"If-None-Match": etag}) as unchanged:
        assert unchanged.status == 304

    assert int(position) >= int(before)
    assert nodes(resumed.events) == ["n2"]
    assert int(unchanged.headers["Event-Position"]) >= int(position), "also in an answer without a body"


async def test_an_unknown_parameter_of_a_stream_is_refused(world: World) -> None:
    browser = await world.login("ada@acme.example")

    async with browser.get(f"{STREAM}?kind=job.failed") as answer:
        problem = await answer.json()

    assert (answer.status, problem["detail"]) == (400, "kind: there is no such parameter")
    assert problem["hint"] == "this request takes no parameters"


@pytest.mark.parametrize("after", ["2026-01-01T00:00:00", "0001-01-01T00:00:00%2B05:00", "9999-12-31T23:59:59-05:00"])
async def test_a_time_without_a_zone_or_outside_of_the_calendar_is_refused(world: World, after: str) -> None:
    browser = await world.login("ada@acme.example")

    async with browser.get(f"{EVENTS}?after={after}") as answer:
        problem = await answer.json()

    assert answer.status == 400
    assert problem["detail"].startswith("after: ")


async def test_one_person_cannot_open_streams_without_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.http.answers.sse.PING_SECONDS", 0.5)
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")

    async with AsyncExitStack() as opened:
        for _ in range(MAX_STREAMS):
            await opened.enter_async_context(sse_reader(ada, STREAM))
        async with ada.get(STREAM) as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        async with sse_reader(boss, STREAM) as other:
            assert other.response.status == 200

    async def open_again() -> bool:
        async with ada.get(STREAM) as answer:
            return answer.status == 200

    await until(open_again, seconds=90, what="a stream to be allowed again")


async def test_a_client_that_reads_nothing_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.http.requests.long_transfers.BEHIND_SECONDS", 0.5)
    browser = await world.login("boss@acme.example")
    subscribers = REGISTRY.get_sample_value("clusterra_feed_subscribers") or 0
    answer = await browser.get(STREAM)
    assert answer.connection is not None
    assert answer.connection.transport is not None
    answer.connection.transport.pause_reading()
    publisher = EventPublisher(world.client, "proxy")

    async def left() -> bool:
        # Each is larger than a line of text, so that the buffers of the connection fill soon.
        fact = NodeFact(kind="node.down", node="n1", reason="x" * 200_000)
        await publisher.publish(world.acme.ref, fact, version=str(next(_versions)), time=now())
        return REGISTRY.get_sample_value("clusterra_feed_subscribers") == subscribers

    await until(left, seconds=60, what="the stream to end", every=0.01)
    answer.close()


async def test_a_client_resumes_behind_its_last_id_and_misses_nothing(world: World) -> None:
    browser = await world.login("boss@acme.example")

    async with sse_reader(browser, STREAM) as reader:
        await publish_node_down(world, "n0")
        await reader.until_events(1)

    for number in range(1, 600):
        await publish_node_down(world, f"n{number}")
    async with sse_reader(browser, STREAM, last_id=reader.events[0].id) as resumed:
        await publish_node_down(world, "n600")
        await resumed.until_events(600)

    assert nodes(resumed.events) == [f"n{number}" for number in range(1, 601)]


async def test_a_client_that_is_too_far_behind_is_sent_to_the_history(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_gateway.events.resuming.MAX_EVENTS", 5)
    browser = await world.login("boss@acme.example")
    async with sse_reader(browser, STREAM) as reader:
        await publish_node_down(world, "n0")
        await reader.until_events(1)
    for number in range(1, 10):
        await publish_node_down(world, f"n{number}")

    async with sse_reader(browser, STREAM, last_id=reader.events[0].id) as resumed:
        await resumed.until_events(6)
        await publish_node_down(world, "n10")
        await resumed.until_events(7)

    assert [event.event for event in resumed.events] == [*("message",) * 5, "reset", "message"]
    assert nodes(resumed.events) == [*(f"n{number}" for number in range(1, 6)), "n10"]


async def test_two_streams_of_a_person_both_resume(world: World) -> None:
    browser = await world.login("boss@acme.example")
    async with sse_reader(browser, STREAM) as reader:
        await publish_node_down(world, "n0")
        await reader.until_events(1)
    for number in range(1, 30):
        await publish_node_down(world, f"n{number}")

    async with (
        sse_reader(browser, STREAM, last_id=reader.events[0].id) as one,
        sse_reader(browser, STREAM, last_id=reader.events[0].id) as other,
    ):
        await one.until_events(29)
        await other.until_events(29)

    assert nodes(one.events) == nodes(other.events) == [f"n{number}" for number in range(1, 30)]


async def test_an_id_that_is_no_longer_retained_is_answered_with_reset(world: World) -> None:
    browser = await world.login("boss@acme.example")

    async with sse_reader(browser, STREAM) as reader:
        await publish_node_down(world, "n1")
        await reader.until_events(1)

    js = world.client.jetstream()
    await js.purge_stream("EVENT", keep=0)
    await publish_node_down(world, "n2")

    for stale in (int(reader.events[0].id) - 1, 10**12):
        async with sse_reader(browser, STREAM, last_id=stale) as resumed:
            await resumed.until_events(1)
            await publish_node_down(world, "n3")
            await resumed.until_events(2)
        assert [event.event for event in resumed.events] == ["reset", "message"]
        assert nodes(resumed.events) == ["n3"]

    async with sse_reader(browser, STREAM, last_id=reader.events[0].id) as resumed:
        await resumed.until_events(1)
    assert nodes(resumed.events[:1]) == ["n2"]


async def test_no_event_is_missed_when_the_stream_is_lost_while_a_client_is_away(world: World) -> None:
    browser = await world.login("boss@acme.example")
    async with sse_reader(browser, STREAM) as followed:
        for number in range(3):
            await publish_node_down(world, f"old{number}")
        await followed.until_events(3)
        known = followed.events[-1].id
        await world.client.jetstream().delete_stream("EVENT")
        await topology.apply(world.client)
        # More than before: numbers that begin anew would pass those that the client knows.
        for number in range(20):
            await publish_node_down(world, f"new{number}")
        await followed.until_events(23)

    async with sse_reader(browser, STREAM, last_id=known) as resumed:
        await resumed.until_events(1)
    async with sse_reader(browser, STREAM, last_id=followed.events[9].id) as other:
        await other.until_events(13)

    assert nodes(followed.events) == [
        *(f"old{number}" for number in range(3)),
        *(f"new{number}" for number in range(20)),
    ]
    assert [event.event for event in resumed.events] == ["reset"], "it is told that the stream is another one"
    assert nodes(other.events) == [f"new{number}" for number in range(7, 20)]


async def test_invalid_events_and_events_on_the_wrong_subject_are_left_out(world: World) -> None:
    browser = await world.login("boss@acme.example")
    lie = AdminFact(kind="user.created", actor="eve", subject="root")

    async with sse_reader(browser, STREAM) as reader:
        await world.client.publish(subjects.event(world.acme.ref, "node.down"), b"garbage")
        await EventPublisher(world.client, "edge-agent").publish(world.acme.ref, lie, version="1", time=now())
        event = Event.model_validate_json(
            '{"id": "x", "source": "x", "type": "x", "subject": "x", "time": "2026-01-01T00:00:00Z",'
            ' "data": {"kind": "user.created", "actor": "eve", "subject": "root"}}'
        )
        await world.client.publish(subjects.event(world.acme.ref, "worker.started"), event.model_dump_json().encode())
        await publish_node_down(world, "n1")
        await reader.until_events(2)

    assert [orjson.loads(each.data)["data"]["kind"] for each in reader.events] == ["user.created", "node.down"]


async def test_sign_ups_and_changes_of_tokens_are_events(world: World) -> None:
    """nina signs in nowhere else: all tests share a NATS server, which stores an event of the same id once."""
    boss = await world.login("boss@acme.example")

    async with sse_reader(boss, STREAM, first_sign_ins=True) as reader:
        nina = await world.login("nina@acme.example")
        await world.login("nina@acme.example")
        async with nina.post("/v1/users/me/tokens", json={"name": "ci"}) as answer:
            made = await answer.json()
        async with nina.delete(f"/v1/users/me/tokens/{made['id']}") as answer:
            assert answer.status == 204
        await reader.until_events(3)
        await until(lambda: "token.revoked" in reader.events[-1].data, seconds=90, what="the last event")

    facts = [Event.model_validate_json(event.data).data for event in reader.events]
    # The boss' own first sign-in may still arrive in their stream.
    assert [fact for fact in facts if getattr(fact, "actor", "") != "boss"] == [
        AdminFact(kind="user.created", actor="nina", subject="nina"),
        AdminFact(kind="token.created", actor="nina", subject=made["id"], detail=made["name"]),
        AdminFact(kind="token.revoked", actor="nina", subject=made["id"], detail=made["name"]),
    ]
    assert made["token"] not in "".join(event.data for event in reader.events)


async def test_a_slow_subscriber_is_dropped_after_its_last_queued_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.bus.event_feed.QUEUE", 3)
    event = Event.model_validate(
        {
            "id": "x",
            "source": "x",
            "type": "x",
            "subject": "n1",
            "time": now(),
            "data": {"kind": "node.down", "node": "n1"},
        }
    )

    slow = Subscription()
    for sequence in range(9):
        slow.offer(Told([StreamedEvent(sequence, event)]))

    assert [(await slow.next()).events[0].sequence for _ in range(3)] == [0, 1, 2]
    with pytest.raises(SubscriberTooSlow):
        await slow.next()

    slow.offer(Told([StreamedEvent(9, event)]))
    with pytest.raises(SubscriberTooSlow):
        await slow.next()


async def test_a_quiet_stream_has_pings(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.http.answers.sse.PING_SECONDS", 0.05)
    browser = await world.login("boss@acme.example")

    async with browser.get(STREAM) as answer:
        first = await answer.content.readline()
        assert first.startswith(b"retry: ")
        async with asyncio.timeout(90):
            while await answer.content.readline() != b": ping\n":
                pass


async def test_the_stream_misses_nothing_when_the_nats_server_is_killed(
    settings: Settings, issuer: IssuerStandIn, tmp_path: Path
) -> None:
    async with nats_server(tmp_path / "own") as server:
        settings = settings.model_copy(update={"nats_url": server.url})
        client = await bus.connect(settings, "topology")
        await topology.apply(client)
        await bus.close(client)

        async with running(settings, issuer) as world:
            browser = await world.login("boss@acme.example")
            async with sse_reader(browser, STREAM) as reader:
                await publish_node_down(world, "n1")
                await reader.until_events(1)
                await server.kill()
                await server.restart()
                await publish_node_down(world, "n2")
                await reader.until_events(2)
            await until(lambda: not world.service.failing(), seconds=90, what="the gateway to be ready again")

    assert nodes(reader.events) == ["n1", "n2"]


async def test_a_list_of_events_says_up_to_where_the_archive_is_complete(world: World) -> None:
    browser = await world.login("boss@acme.example")
    async with sse_reader(browser, STREAM) as reader:
        await publish_node_down(world, "n1")
        await reader.until_events(1)

    async with browser.get(EVENTS) as answer:
        unknown = answer.headers.get("Event-Position")
    world.acme.events.archive_position = 17
    async with browser.get(EVENTS) as answer:
        known, body = answer.headers.get("Event-Position"), await answer.json()

    assert (unknown, known) == (None, "17")
    assert body == {"events": [], "cursor": None, "kept_from": None}
    assert [asked.complete_to for asked in world.acme.events.histories] == [int(reader.events[-1].id)] * 2


async def test_a_ping_never_comes_into_the_middle_of_events(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.http.answers.sse.PING_SECONDS", 0.001)
    monkeypatch.setattr("clusterra_gateway.http.answers.streams.SLICE_BYTES", 64)
    browser = await world.login("boss@acme.example")

    async def pausing(request: web.Request, response: web.StreamResponse, part: bytes) -> None:
        await response.write(part)
        await asyncio.sleep(0.002)  # as for a client that reads slowly

    monkeypatch.setattr("clusterra_gateway.http.answers.streams._write", pausing)
    async with sse_reader(browser, STREAM) as reader:
        for number in range(20):
            await publish_node_down(world, f"n{number}")
        await reader.until_events(20)

    assert nodes(reader.events) == [f"n{number}" for number in range(20)]
