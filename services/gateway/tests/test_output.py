"""A job's output: the whole of it, as it grows, and resumed where a client left off."""

import asyncio

import aiohttp
import orjson
import pytest
from clusterra_contracts.events import JobFact
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.edge import LOG_CHUNK_BYTES
from clusterra_gateway.jobs.output import follow
from clusterra_gateway.jobs.output.follow import MAX_EVENT_BYTES, OutputDecoder
from clusterra_gateway.jobs.output.output import TAIL_BYTES
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.events import EventPublisher
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from sse_reader import sse_reader

OUTPUT = "/v1/clusters/main/jobs/7/output"
STREAM = f"{OUTPUT}/stream"


@pytest.fixture(autouse=True)
def quick_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower soon looks again where nothing new was written."""
    for name in ("WAIT_SECONDS", "LAST_WAIT_SECONDS", "NO_FILE_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(follow, name, 0.1)


async def change_state(world: World, job_id: str = "7", state: str = "COMPLETED", *, restarts: int = 0) -> None:
    world.acme.set_state(job_id, state, restarts=restarts)
    job = world.acme.jobs[job_id]
    fact = JobFact(
        kind="job.completed",
        job_id=job_id,
        name=job.name,
        user=job.user,
        uid=job.uid,
        partition="main",
        state=state,
        submitted_at=job.submitted_at,
    )
    await EventPublisher(world.client, "proxy").publish(world.acme.ref, fact, version=now().isoformat(), time=now())


async def read_output(browser: aiohttp.ClientSession, query: str = "") -> bytes:
    async with browser.get(OUTPUT + query) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return await answer.read()


@pytest.mark.parametrize("size", [0, 1, LOG_CHUNK_BYTES, LOG_CHUNK_BYTES + 1, 3 * LOG_CHUNK_BYTES + 7])
async def test_the_output_is_returned_byte_for_byte(world: World, size: int) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    data = bytes(range(256)) * (size // 256 + 1)
    world.acme.edge.write_output("7", data[:size])

    assert await read_output(browser) == data[:size]


async def test_standard_error_is_a_separate_output(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"out")
    world.acme.edge.write_output("7", b"err", "stderr")

    assert await read_output(browser, "?stream=stderr") == b"err"
    async with browser.get(f"{OUTPUT}?stream=stdin") as answer:
        assert answer.status == 400


async def test_a_job_that_has_written_nothing_has_no_output(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7", state="PENDING")

    async with browser.get(OUTPUT) as answer:
        assert answer.status == 404
        problem = await answer.json()

    assert "PENDING" in problem["detail"]
    assert problem["hint"]


async def test_a_response_cut_off_by_the_edge_does_not_look_complete(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"x" * (2 * LOG_CHUNK_BYTES))

    async with browser.get(OUTPUT) as answer:
        world.acme.edge.output.clear()
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_the_stream_follows_the_output_until_the_job_has_ended(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\n")

    async with sse_reader(browser, STREAM) as reader:
        await reader.until_text("one\n")
        world.acme.edge.write_output("7", b"two\n")
        await reader.until_text("one\ntwo\n")
        world.acme.edge.write_output("7", b"last")
        await change_state(world)
        await reader.until_end()

    *_, last = reader.events
    assert reader.text == "one\ntwo\nlast"
    assert last.event == "end"
    assert orjson.loads(last.data) == {"state": "COMPLETED"}
    assert last.id == str(len(b"one\ntwo\nlast"))


def _dropped() -> float:
    return REGISTRY.get_sample_value("clusterra_feed_dropped_total") or 0.0


async def test_the_stream_ends_with_its_job_after_more_events_than_it_can_hold(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_gateway.bus.event_feed.QUEUE", 1)
    monkeypatch.setattr(follow, "POLL_SECONDS", 3600.0)
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\n")

    async with sse_reader(browser, STREAM) as reader:
        await reader.until_text("one\n")
        dropped = _dropped()
        async with asyncio.timeout(90):
            while _dropped() == dropped:
                await change_state(world, state="RUNNING")
        reads = len(world.acme.edge.reads)
        await until(lambda: len(world.acme.edge.reads) >= reads + 4, seconds=90, what="the follower to empty its queue")
        await change_state(world)
        await reader.until_end()

    assert reader.events[-1].event == "end"


async def test_the_stream_waits_for_a_job_that_has_not_started(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7", state="PENDING")

    async with sse_reader(browser, STREAM) as reader:
        world.acme.edge.write_output("7", b"hello\n")
        await change_state(world, state="RUNNING")
        await reader.until_text("hello\n")
        await change_state(world)
        await reader.until_end()

    assert reader.events[-1].event == "end"


async def test_the_stream_of_a_job_that_never_ran_ends_immediately(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7", state="CANCELLED")

    async with sse_reader(browser, STREAM) as reader:
        await reader.until_end()

    assert [(event.event, event.data) for event in reader.events] == [("end", '{"state":"CANCELLED"}')]


async def test_a_client_resumes_behind_its_last_id(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7", state="COMPLETED")
    written = "ä\n" * 20_000
    world.acme.edge.write_output("7", written.encode())

    async with sse_reader(browser, STREAM) as reader:
        await reader.until_events(2)

    first = reader.events[0]
    async with sse_reader(browser, STREAM, last_id=first.id) as reader:
        await reader.until_end()

    assert first.data + reader.text == written

    async with sse_reader(browser, STREAM, last_id=reader.events[-1].id) as reader:
        await reader.until_end()

    assert [event.event for event in reader.events] == ["end"]


async def test_the_stream_of_a_requeued_job_starts_from_the_beginning(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"first run\n")

    async with sse_reader(browser, STREAM) as reader:
        await reader.until_events(1)
        world.acme.edge.empty_output("7")
        world.acme.edge.write_output("7", b"2nd\n")
        await reader.until_events(3)

    assert [event.event for event in reader.events] == ["message", "reset", "message"]
    assert reader.events[2].data == "2nd\n"


async def test_output_that_is_read_before_the_record_tells_of_the_run_is_sent_once(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7", state="PENDING")
    world.acme.edge.write_output("7", b"one\n")

    async with sse_reader(browser, STREAM) as reader:
        await reader.until_text("one\n")
        await change_state(world, state="RUNNING")
        await until(lambda: len(world.acme.edge.reads) >= 4, seconds=90, what="more reads")
        await change_state(world)
        await reader.until_end()

    assert [event.event for event in reader.events] == ["message", "end"]


async def test_the_output_of_a_second_run_is_noticed_however_long_it_is(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"first run\n")

    async with sse_reader(browser, STREAM) as reader:
        await reader.until_events(1)
        await change_state(world, state="PENDING", restarts=1)
        world.acme.edge.empty_output("7")
        world.acme.edge.write_output("7", b"the second run writes more\n")
        await change_state(world, state="RUNNING", restarts=1)
        await until(
            lambda: "the second run writes more\n" in [event.data for event in reader.events],
            seconds=20,
            what="the text",
        )
        # Slurm tells of the run before slurmstepd empties the file.
        world.acme.edge.empty_output("7")
        world.acme.edge.write_output("7", b"the second run has written other text than was there before\n")
        await change_state(world, restarts=1)
        await reader.until_end()

    *_, reset, message, end = reader.events
    assert (reset.event, end.event) == ("reset", "end")
    assert message.data == "the second run has written other text than was there before\n"


async def test_the_stream_waits_for_an_edge_that_does_not_answer(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\n")

    async with sse_reader(browser, STREAM) as reader:
        await reader.until_text("one\n")
        await world.acme.stop_serving()
        world.acme.edge.write_output("7", b"two\n")
        await world.acme.serve(world.client)
        await reader.until_text("one\ntwo\n")


async def test_the_stream_ends_when_the_session_is_signed_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.http.answers.sse.PING_SECONDS", 0.1)
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\n")

    async with sse_reader(browser, STREAM) as reader:
        await reader.until_text("one\n")
        async with browser.post("/v1/auth/logout") as answer:
            assert answer.status == 204
        await reader.until_end()

    assert [event.event for event in reader.events] == ["message"]


@pytest.mark.parametrize("last_id", ["x", "-1", "1.5", "٣", "9" * 30])
async def test_a_malformed_last_event_id_is_rejected(world: World, last_id: str) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")

    async with browser.get(STREAM, headers={"Last-Event-ID": last_id}) as answer:
        assert answer.status == 400


@pytest.mark.parametrize(("after", "rest"), [(0, b"one\ntwo\n"), (4, b"two\n"), (8, b"")])
async def test_the_output_is_returned_from_a_byte_offset_on(world: World, after: int, rest: bytes) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\ntwo\n")

    assert await read_output(browser, f"?after={after}") == rest


async def test_an_offset_behind_the_end_is_not_satisfiable(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\n")

    async with browser.get(f"{OUTPUT}?after=5") as answer:
        assert answer.status == 416
        problem = await answer.json()

    assert problem["type"].endswith("/range-not-satisfiable")
    assert "4 bytes" in problem["detail"]


@pytest.mark.parametrize("query", ["after=-1", "after=x", "tail=-1", "tail=10001"])
@pytest.mark.parametrize("path", [OUTPUT, STREAM])
async def test_a_wrong_beginning_is_rejected(world: World, path: str, query: str) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\n")

    async with browser.get(f"{path}?{query}") as answer:
        assert answer.status == 400


@pytest.mark.parametrize(
    ("written", "lines", "tail"),
    [
        (b"one\ntwo\nthree\n", 2, b"two\nthree\n"),
        (b"one\ntwo\nthree", 2, b"two\nthree"),
        (b"one\ntwo\n", 2, b"one\ntwo\n"),
        (b"one\ntwo\n", 9, b"one\ntwo\n"),
        (b"one\n", 0, b""),
        (b"", 3, b""),
        (b"\n\n\n", 1, b"\n"),
        (b"a\n" + b"x" * LOG_CHUNK_BYTES + b"\nlast\n", 2, b"x" * LOG_CHUNK_BYTES + b"\nlast\n"),
        (b"a\n" + b"x" * (LOG_CHUNK_BYTES - 1) + b"\n", 1, b"x" * (LOG_CHUNK_BYTES - 1) + b"\n"),
        (b"a\n" + b"x" * (2 * TAIL_BYTES), 1, b"x" * TAIL_BYTES),
        ("ä".encode() * TAIL_BYTES + b"x", 1, "ä".encode() * (TAIL_BYTES // 2 - 1) + b"x"),
    ],
)
async def test_the_tail_is_the_last_lines(world: World, written: bytes, lines: int, tail: bytes) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", written)

    assert await read_output(browser, f"?tail={lines}") == tail


@pytest.mark.parametrize(
    ("wanted", "part", "content_range"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=7-99", b"789", "bytes 7-9/10"),
        ("Bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-99", b"0123456789", "bytes 0-9/10"),
    ],
)
async def test_a_range_of_the_output_is_returned(world: World, wanted: str, part: bytes, content_range: str) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"0123456789")

    async with browser.get(OUTPUT, headers={"Range": wanted}) as answer:
        assert answer.status == 206
        assert answer.headers["Content-Range"] == content_range
        assert answer.content_length == len(part)
        assert await answer.read() == part


async def test_a_long_range_is_returned(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    data = bytes(range(256)) * (3 * LOG_CHUNK_BYTES // 256)
    world.acme.edge.write_output("7", data)

    async with browser.get(OUTPUT, headers={"Range": f"bytes=5-{2 * LOG_CHUNK_BYTES + 9}"}) as answer:
        assert await answer.read() == data[5 : 2 * LOG_CHUNK_BYTES + 10]


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ("bytes=10-", 416),
        ("bytes=-0", 416),
        ("bytes=4-2", 416),
        ("bytes=0-1,3-4", 400),
        ("bytes=x-1", 400),
        ("bytes=-", 400),
        ("bytes=٣-", 400),
        ("lines=1-2", 200),
    ],
)
async def test_a_range_that_cannot_be_returned(world: World, wanted: str, status: int) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"0123456789")

    async with browser.get(OUTPUT, headers={"Range": wanted}) as answer:
        assert answer.status == status
        assert answer.headers.get("Content-Range") == ("bytes */10" if status == 416 else None)


async def test_a_range_is_ignored_beside_another_beginning(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\ntwo\n")

    async with browser.get(f"{OUTPUT}?tail=1", headers={"Range": "bytes=0-1"}) as answer:
        assert answer.status == 200
        assert await answer.read() == b"two\n"


@pytest.mark.parametrize(("query", "rest"), [("after=4&tail=1", b"three\n"), ("after=4&tail=9", b"two\nthree\n")])
async def test_the_output_begins_at_the_later_of_two_beginnings(world: World, query: str, rest: bytes) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\ntwo\nthree\n")

    assert await read_output(browser, f"?{query}") == rest


async def test_a_stream_begins_with_the_last_lines(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\ntwo\nthree\n")

    async with sse_reader(browser, f"{STREAM}?tail=1") as reader:
        await reader.until_text("three\n")
        world.acme.edge.write_output("7", b"four\n")
        await reader.until_text("three\nfour\n")

    assert reader.events[-1].id == str(len(b"one\ntwo\nthree\nfour\n"))


async def test_a_stream_of_the_last_lines_waits_for_a_job_that_has_not_started(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7", state="PENDING")

    async with sse_reader(browser, f"{STREAM}?tail=1") as reader:
        world.acme.edge.write_output("7", b"one\ntwo\n")
        await change_state(world, state="RUNNING")
        await reader.until_text("one\ntwo\n")


@pytest.mark.parametrize("begin", ["after=8", "tail=0"])
async def test_the_last_event_id_goes_before_another_beginning(world: World, begin: str) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7", state="COMPLETED")
    world.acme.edge.write_output("7", b"one\ntwo\nthree\n")

    async with sse_reader(browser, f"{STREAM}?{begin}", last_id="4") as reader:
        await reader.until_end()

    assert reader.text == "two\nthree\n"


pieces = st.lists(st.binary(max_size=12) | st.sampled_from(["ä€𝄞".encode(), b"\r", b"\n", b"\r\n", b"\xf0\x9d"]))


@given(pieces)
def test_the_text_does_not_depend_on_how_the_bytes_are_split(parts: list[bytes]) -> None:
    data = b"".join(parts)
    expected = data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")

    text = OutputDecoder(0)
    texts = [part for piece in parts for part in text.add(piece)]
    rest = text.finish()

    assert "".join(part for part, _ in texts) + (rest[0] if rest else "") == expected
    assert text.read == len(data)


@given(st.text(alphabet="aä€𝄞\r\n"), st.lists(st.integers(1, 7), min_size=1))
def test_a_client_can_resume_from_every_id(written: str, sizes: list[int]) -> None:
    data = written.encode()
    expected = written.replace("\r\n", "\n").replace("\r", "\n")
    text = OutputDecoder(0)
    position = turn = 0
    before = ""

    while position < len(data):
        for part, offset in text.add(data[position : position + sizes[turn % len(sizes)]]):
            before += part
            resumed = OutputDecoder(offset)
            after = "".join(each for each, _ in resumed.add(data[offset:]))
            rest = resumed.finish()
            assert before + after + (rest[0] if rest else "") == expected
        position, turn = text.read, turn + 1


def test_no_event_is_longer_than_the_maximum() -> None:
    parts = OutputDecoder(0).add(b"x" * LOG_CHUNK_BYTES)
    assert max(len(part) for part, _ in parts) <= MAX_EVENT_BYTES


async def test_many_followers_cost_the_edge_one_reader(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    followers = 100
    monkeypatch.setattr(follow, "WAIT_SECONDS", 2.0)
    monkeypatch.setattr("clusterra_gateway.identity.access.limits.MAX_STREAMS", followers)
    browser = await world.login("ada@acme.example")
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"first\n")
    connector = aiohttp.TCPConnector(limit=followers)
    async with (
        aiohttp.ClientSession(world.url, connector=connector, cookie_jar=browser.cookie_jar) as many,
        asyncio.TaskGroup() as tasks,
    ):
        seen = [bytearray() for _ in range(followers)]

        async def read(index: int) -> None:
            async with many.get(STREAM) as answer:
                async for data in answer.content.iter_any():
                    seen[index] += data

        for index in range(followers):
            tasks.create_task(read(index))
        await until(lambda: all(b"first" in each for each in seen), seconds=60, what="all followers to have caught up")
        before = len(world.acme.edge.reads)
        for line in range(10):
            world.acme.edge.write_output("7", b"line %d\n" % line)
            wanted = b"line %d" % line
            await until(lambda: all(wanted in each for each in seen), seconds=60, what=f"line {line}")  # noqa: B023
        spent = len(world.acme.edge.reads) - before
        await change_state(world)

    assert all(b"event: end" in each for each in seen)
    # One read for each line, and one for each two seconds without one; but not one for each follower.
    assert spent < followers / 2, spent
