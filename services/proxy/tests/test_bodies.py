import asyncio
from weakref import WeakKeyDictionary

import orjson
import pytest
from clusterra_proxy.slurmrestd import bodies
from clusterra_proxy.slurmrestd.accounting_records import AccountingJobs
from clusterra_proxy.slurmrestd.answers import Jobs
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import BadAnswer, Unavailable, Unreachable
from clusterra_proxy.slurmrestd.versions import V42

NUMBER = {"set": True, "infinite": False, "number": 1769860800}
JOB = {
    "job_id": 7,
    "job_state": ["RUNNING"],
    "submit_time": NUMBER,
    "standard_output": "/shared/job_7.out",
    "tres_per_node": None,
}
RUN = {
    "job_id": 7,
    "state": {"current": ["COMPLETED"], "reason": ""},
    "time": {"submission": 1769860800, "start": 4294967294, "end": 1769860801},
    "required": {"CPUs": 3},
}


async def test_a_large_body_parses_to_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for model, content in ((Jobs, JOB), (V42.jobs, JOB), (AccountingJobs, RUN)):
        body = orjson.dumps({"jobs": [content] * 3, "errors": []})
        small = await bodies.parse(model, body, 200, entity="job")
        with monkeypatch.context() as patched:
            patched.setattr(bodies, "SUBPROCESS_BYTES", 1)
            large = await bodies.parse(model, body, 200, entity="job")
        assert large == small
        assert len(small.jobs) == 3  # type: ignore[attr-defined]


async def test_an_unparsable_body_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (bodies.SUBPROCESS_BYTES, 1):
        monkeypatch.setattr(bodies, "SUBPROCESS_BYTES", limit)
        for body in (b"<html>", b'{"jobs": 7}', b"[]"):
            with pytest.raises(Unavailable, match="version"):
                await bodies.parse(Jobs, body, 200, entity="job")


async def test_a_plain_text_error_becomes_an_error_entry() -> None:
    answer = await bodies.parse(Jobs, b"Authentication failure", 401, entity="job")
    assert [entry.description for entry in answer.errors] == ["Authentication failure"]


async def test_a_large_body_is_parsed_as_it_arrives_and_a_broken_one_is_no_answer() -> None:
    jobs = [{**JOB, "job_id": number, "name": "x" * 1000} for number in range(1, 2500)]
    body = orjson.dumps({"jobs": jobs, "errors": []})
    assert len(body) > bodies.SUBPROCESS_BYTES
    sent = {"whole": body, "half": body[: len(body) // 2], "garbage": b"<" * len(body)}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        name = request.split(b" ")[1].strip(b"/").decode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + sent[name])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Slurmrestd(f"http://127.0.0.1:{port}") as client:
        read = await client.read_list("whole", "token", Jobs, entity="job")
        assert read is not None
        assert [job.job_id for job in read.jobs] == list(range(1, 2500))
        with pytest.raises(Unreachable):
            await client.read_list("half", "token", Jobs, entity="job")
        with pytest.raises(Unavailable, match="version"):
            await client.read_list("garbage", "token", Jobs, entity="job")


async def test_a_process_has_few_subprocesses_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SUBPROCESS_BYTES", 1)
    monkeypatch.setattr(bodies, "SUBPROCESSES", 2)
    monkeypatch.setattr(bodies, "_slots", WeakKeyDictionary())
    start = asyncio.create_subprocess_exec
    started: list[asyncio.subprocess.Process] = []
    most = 0

    async def count(*command: str, **pipes: int) -> asyncio.subprocess.Process:
        nonlocal most
        process = await start(*command, **pipes)  # type: ignore[arg-type]
        started.append(process)
        most = max(most, sum(each.returncode is None for each in started))
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", count)
    body = orjson.dumps({"jobs": [JOB], "errors": []})

    answers = await asyncio.gather(*(bodies.parse(Jobs, body, 200, entity="job") for _ in range(5)))

    assert [len(answer.jobs) for answer in answers] == [1] * 5
    assert (len(started), most) == (5, 2)


async def test_an_abandoned_answer_frees_its_subprocess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SUBPROCESSES", 1)
    monkeypatch.setattr(bodies, "_slots", WeakKeyDictionary())
    for _ in range(2):
        async with bodies.BodyParser(Jobs) as parser, asyncio.timeout(90):
            await parser.feed(b"{")


async def test_what_a_subprocess_writes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "WRITTEN_BYTES", 1024 * 1024)
    monkeypatch.setattr(bodies, "SUBPROCESS_BYTES", 1)
    record = orjson.dumps({**JOB, "name": "x" * 10_000})

    async def parse() -> None:
        async with bodies.BodyParser(Jobs) as parser:
            await parser.feed(b'{"jobs": [' + record)
            for _ in range(10_000):
                await parser.feed(b"," + record)
            await parser.feed(b"]}")
            await parser.finish()

    async with asyncio.timeout(90):
        with pytest.raises(BadAnswer, match="too large"):
            await parse()
