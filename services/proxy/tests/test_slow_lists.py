"""Slurms that send large lists slowly do not hold up the lists of others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from weakref import WeakKeyDictionary

import orjson
import pytest
from clusterra_proxy.slurmrestd import bodies
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.versions import V45

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SLOW = 8


@asynccontextmanager
async def server(body: bytes, asked: asyncio.Queue[None], *, length: int) -> AsyncIterator[str]:
    """Run a server that sends a body, and then nothing more. It notes each request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Content-Length: %d\r\n\r\n" % length + body)
        await writer.drain()
        asked.put_nowait(None)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as running:
        host, port = running.sockets[0].getsockname()
        yield f"http://{host}:{port}"


async def test_lists_that_do_not_come_hold_up_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_slots", WeakKeyDictionary())
    jobs = [{"job_id": number, "name": "x" * 1000} for number in range(1, 2500)]
    body = orjson.dumps({"jobs": jobs})
    asked = asyncio.Queue[None]()

    async with AsyncExitStack() as stack:
        hostile = []
        for _ in range(SLOW):
            url = await stack.enter_async_context(server(b'{"jobs": [', asked, length=bodies.SUBPROCESS_BYTES * 10))
            slow = await stack.enter_async_context(Slurmrestd(url, tenant="slow"))
            hostile.append(asyncio.create_task(slow.read_list("jobs/", "token", V45.jobs, entity="job")))
        async with asyncio.timeout(10):
            for _ in range(SLOW):
                await asked.get()
        url = await stack.enter_async_context(server(body, asyncio.Queue(), length=len(body)))
        slurmrestd = await stack.enter_async_context(Slurmrestd(url, tenant="other"))

        async with asyncio.timeout(10):
            answer = await slurmrestd.read_list("jobs/", "token", V45.jobs, entity="job")

        for each in hostile:
            each.cancel()
        await asyncio.gather(*hostile, return_exceptions=True)

    assert answer is not None
    assert len(answer.jobs) == len(jobs)
