import asyncio
from weakref import WeakKeyDictionary

import orjson
import pytest
from clusterra_proxy.slurmrestd import bodies, body_reader, known_records
from clusterra_proxy.slurmrestd.accounting_records import AccountingJobs
from clusterra_proxy.slurmrestd.answers import Jobs
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import BadAnswer, Unavailable, Unreachable
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.versions import V42
from pydantic import ValidationError

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


@pytest.mark.parametrize(
    "listed",
    [b"{}," * (body_reader.MAX_AT_ONCE + 1) + b"{}", b'{"gres_detail":[' + b"1," * body_reader.MAX_VALUES + b"1]}"],
)
async def test_a_small_body_with_many_values_is_parsed_in_a_subprocess(
    listed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it holds up the requests of all")

    monkeypatch.setattr(body_reader, "read_content", never)

    answer = await bodies.parse(Jobs, b'{"jobs":[%s]}' % listed, 200, entity="job")

    assert answer.jobs == ()
    assert len(answer.unreadable) == listed.count(b"{")


def test_a_list_of_wrong_values_ends_at_the_first_one() -> None:
    answers: tuple[dict[str, object], ...] = (
        {"jobs": [{}] * 100},
        {"warnings": [1] * 50},
        {"jobs": [{"job_id": 1, "gres_detail": [1] * 100}]},
    )
    for wrong in answers:
        with pytest.raises(ValidationError) as refused:
            Jobs.model_validate(wrong)
        assert refused.value.error_count() <= len(JobRecord.model_fields)


async def test_a_list_of_too_many_records_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    body = orjson.dumps({"jobs": [JOB] * (body_reader.MAX_AT_ONCE + 1)})
    monkeypatch.setattr(known_records, "MAX_RECORDS", body_reader.MAX_AT_ONCE)

    with pytest.raises(BadAnswer):
        await bodies.parse(Jobs, body, 200, entity="job")


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
