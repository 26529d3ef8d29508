"""A job's output: whole, as it grows, and from where a client left off."""

import aiohttp
import orjson
import pytest
from clusterra_contracts.events import JobFact
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.edge import LOG_CHUNK_BYTES
from clusterra_gateway.output.text import MAX_EVENT_BYTES, Text
from clusterra_runtime.nats.events import EventPublisher
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st
from sse_reader import reading

OUTPUT = "/v1/clusters/main/jobs/7/output"
STREAM = f"{OUTPUT}/stream"


async def tell_end(world: World, job_id: str = "7", state: str = "COMPLETED") -> None:
    world.acme.set_state(job_id, state)
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
    await EventPublisher(world.client, "proxy").tell(world.acme.ref, fact, version=now().isoformat(), time=now())


async def whole(browser: aiohttp.ClientSession, query: str = "") -> bytes:
    async with browser.get(OUTPUT + query) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return await answer.read()


@pytest.mark.parametrize("size", [0, 1, LOG_CHUNK_BYTES, LOG_CHUNK_BYTES + 1, 3 * LOG_CHUNK_BYTES + 7])
async def test_the_whole_output_comes_byte_by_byte(world: World, size: int) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7")
    data = bytes(range(256)) * (size // 256 + 1)
    world.acme.write("7", data[:size])
    assert await whole(browser) == data[:size]


async def test_standard_error_is_another_file(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7")
    world.acme.write("7", b"out")
    world.acme.write("7", b"err", "stderr")
    assert await whole(browser, "?stream=stderr") == b"err"
    async with browser.get(f"{OUTPUT}?stream=stdin") as answer:
        assert answer.status == 400


async def test_before_it_has_written_there_is_no_output(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7", state="PENDING")
    async with browser.get(OUTPUT) as answer:
        assert answer.status == 404
        problem = await answer.json()
    assert "PENDING" in problem["detail"]
    assert problem["hint"]


async def test_an_edge_that_goes_away_leaves_no_part_that_looks_whole(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7")
    world.acme.write("7", b"x" * (2 * LOG_CHUNK_BYTES))
    async with browser.get(OUTPUT) as answer:
        world.acme.output.clear()
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_the_stream_follows_the_file_to_the_jobs_end(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7")
    world.acme.write("7", b"one\n")
    async with reading(browser, STREAM) as reader:
        await reader.until_text("one\n")
        world.acme.write("7", b"two\n")
        await reader.until_text("one\ntwo\n")
        world.acme.write("7", b"last")
        await tell_end(world)
        await reader.until_end()
    *_, last = reader.seen
    assert reader.text == "one\ntwo\nlast"
    assert last.event == "end"
    assert orjson.loads(last.data) == {"state": "COMPLETED"}
    assert last.id == str(len(b"one\ntwo\nlast"))


async def test_a_job_that_has_not_started_is_waited_for(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7", state="PENDING")
    async with reading(browser, STREAM) as reader:
        world.acme.write("7", b"hello\n")
        await tell_end(world, state="RUNNING")
        await reader.until_text("hello\n")
        await tell_end(world)
        await reader.until_end()
    assert reader.seen[-1].event == "end"


async def test_a_job_that_never_ran_ends_at_once(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7", state="CANCELLED")
    async with reading(browser, STREAM) as reader:
        await reader.until_end()
    assert [(event.event, event.data) for event in reader.seen] == [("end", '{"state":"CANCELLED"}')]


async def test_a_client_goes_on_behind_its_last_id(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7", state="COMPLETED")
    written = "ä\n" * 20_000
    world.acme.write("7", written.encode())
    async with reading(browser, STREAM) as reader:
        await reader.until(2)
    first = reader.seen[0]
    async with reading(browser, STREAM, last_id=first.id) as reader:
        await reader.until_end()
    assert first.data + reader.text == written
    async with reading(browser, STREAM, last_id=reader.seen[-1].id) as reader:
        await reader.until_end()
    assert [event.event for event in reader.seen] == ["end"]


async def test_a_requeued_job_begins_anew(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7")
    world.acme.write("7", b"first run\n")
    async with reading(browser, STREAM) as reader:
        await reader.until(1)
        world.acme.output["7", "stdout"] = b""
        world.acme.write("7", b"2nd\n")
        await reader.until(3)
    assert [event.event for event in reader.seen] == ["message", "reset", "message"]
    assert reader.seen[2].data == "2nd\n"


async def test_an_edge_that_is_away_is_waited_for(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7")
    world.acme.write("7", b"one\n")
    async with reading(browser, STREAM) as reader:
        await reader.until_text("one\n")
        await world.acme.leave()
        world.acme.write("7", b"two\n")
        await world.acme.serve(world.client)
        await reader.until_text("one\ntwo\n")


async def test_the_stream_ends_with_the_sign_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.http.sse.PING_SECONDS", 0.1)
    browser = await world.login("ada@acme.example")
    world.acme.add("7")
    world.acme.write("7", b"one\n")
    async with reading(browser, STREAM) as reader:
        await reader.until_text("one\n")
        async with browser.post("/v1/auth/logout") as answer:
            assert answer.status == 204
        await reader.until_end()
    assert [event.event for event in reader.seen] == ["message"]


@pytest.mark.parametrize("last_id", ["x", "-1", "1.5", "٣", "9" * 30])
async def test_a_last_id_that_is_none_is_refused(world: World, last_id: str) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add("7")
    async with browser.get(STREAM, headers={"Last-Event-ID": last_id}) as answer:
        assert answer.status == 400


pieces = st.lists(st.binary(max_size=12) | st.sampled_from(["ä€𝄞".encode(), b"\r", b"\n", b"\r\n", b"\xf0\x9d"]))


@given(pieces)
def test_text_is_the_same_however_the_bytes_come(parts: list[bytes]) -> None:
    data = b"".join(parts)
    expected = data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    text = Text(0)
    told = [part for piece in parts for part in text.add(piece)]
    rest = text.finish()
    whole = "".join(part for part, _ in told) + (rest[0] if rest else "")
    assert whole == expected
    assert text.read == len(data)


@given(st.text(alphabet="aä€𝄞\r\n"), st.lists(st.integers(1, 7), min_size=1))
def test_every_id_is_a_place_to_go_on_from(written: str, sizes: list[int]) -> None:
    data = written.encode()
    expected = written.replace("\r\n", "\n").replace("\r", "\n")
    text = Text(0)
    position = turn = 0
    before = ""
    while position < len(data):
        for part, offset in text.add(data[position : position + sizes[turn % len(sizes)]]):
            before += part
            resumed = Text(offset)
            after = "".join(each for each, _ in resumed.add(data[offset:]))
            rest = resumed.finish()
            assert before + after + (rest[0] if rest else "") == expected
        position, turn = text.read, turn + 1


def test_events_are_short_enough_for_any_client() -> None:
    parts = Text(0).add(b"x" * LOG_CHUNK_BYTES)
    assert max(len(part) for part, _ in parts) <= MAX_EVENT_BYTES
