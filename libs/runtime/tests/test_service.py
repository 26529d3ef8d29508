"""The lifecycle of a service: probes, background tasks, orderly stop."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from clusterra_lab.machine.process import Process, start, until
from clusterra_runtime.service import App, Service
from clusterra_runtime.settings import ServiceSettings

TINY = Path(__file__).with_name("tiny_service.py")
SETTINGS = ServiceSettings(stop_delay_seconds=0.01, stop_grace_seconds=2, stuck_seconds=0.5)


async def tiny(directory: Path, behaviour: str) -> Process:
    environment = {"CLUSTERRA_STOP_DELAY_SECONDS": "0.05", "CLUSTERRA_INSTANCE": "tiny-7"}
    return await start("tiny", [sys.executable, str(TINY), behaviour], log=directory / "tiny.log", env=environment)


def lines(process: Process) -> list[dict[str, Any]]:
    """The entries of the process's log. Every line must be a JSON object; an unfinished last line is left out."""
    return [json.loads(line) for line in process.log.read_text().splitlines(keepends=True) if line.endswith("\n")]


def fetch(address: str, path: str) -> tuple[int, Any]:
    host, _, port = address.partition(":")
    connection = HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if answer.headers[
            "content-type"
        ] == "application/json" else body.decode()
    finally:
        connection.close()


async def probe(service: Service, path: str) -> tuple[int, Any]:
    return await asyncio.to_thread(fetch, service.health, path)


def app_of(
    *, before: Awaitable[None] | None = None, after: Callable[[], Awaitable[None]] | None = None, **background: Any
) -> App:
    @asynccontextmanager
    async def app(service: Service) -> AsyncIterator[None]:
        if before is not None:
            await before
        for name, run in background.items():
            service.background(name, run)
        yield
        if after is not None:
            await after()

    return app


async def forever() -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def living(app: App, settings: ServiceSettings = SETTINGS) -> AsyncIterator[tuple[Service, "asyncio.Task[int]"]]:
    service = Service("test", settings)
    life = asyncio.create_task(service.live(app))
    await until(lambda: life.done() or service.health, seconds=90, what="the health server")
    yield service, life
    if not life.done():
        os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(life, 90)


async def test_a_process_exits_with_0_after_sigterm_and_logs_its_lifecycle_as_json(tmp_path: Path) -> None:
    process = await tiny(tmp_path, "works")
    await until(
        lambda: [entry for entry in lines(process) if entry["event"] == "service_started"],
        seconds=20,
        what="its start",
        process=process,
    )
    address = lines(process)[0]["health"]

    assert (await asyncio.to_thread(fetch, address, "/readyz"))[0] == HTTPStatus.OK

    process.signal(signal.SIGTERM)

    assert await asyncio.wait_for(process.wait(), 90) == 0

    entries = lines(process)
    events = [entry["event"] for entry in entries]

    assert events == ["service_starting", "service_started", "service_stopping", "closed", "service_stopped"]
    for entry in entries:
        assert list(entry)[:3] == ["ts", "level", "event"]
        assert (entry["service"], entry["instance"]) == ("tiny", "tiny-7")
    assert "xyzzy" not in process.log.read_text()


async def test_a_process_exits_with_1_when_a_background_task_fails(tmp_path: Path) -> None:
    process = await tiny(tmp_path, "dies")
    assert await asyncio.wait_for(process.wait(), 90) == 1
    (died,) = [entry for entry in lines(process) if entry["event"] == "background_task_died"]
    assert died["task"] == "work"
    assert "the work cannot go on" in died["exception"]
    assert "closed" in [entry["event"] for entry in lines(process)]


async def test_a_service_serves_health_readiness_and_metrics() -> None:
    async with living(app_of(work=forever)) as (service, _):
        await until(lambda: not service.failing(), seconds=90, what="readiness")

        assert (await probe(service, "/livez"))[0] == HTTPStatus.OK
        assert await probe(service, "/readyz") == (HTTPStatus.OK, {"ready": True, "failing": []})

        status, metrics = await probe(service, "/metrics")

        assert status == HTTPStatus.OK
        assert "process_resident_memory_bytes" in metrics
        assert (await probe(service, "/else"))[0] == HTTPStatus.NOT_FOUND


async def test_a_service_fails_when_a_background_task_ends() -> None:
    async def brief() -> None:
        return

    async with living(app_of(work=forever, brief=brief)) as (_, life):
        assert await asyncio.wait_for(life, 90) == 1


async def test_a_service_fails_when_a_background_task_cancels_itself_but_not_when_it_is_cancelled() -> None:
    async def odd() -> None:
        await asyncio.sleep(0.05)
        raise asyncio.CancelledError

    async with living(app_of(odd=odd)) as (_, life):
        assert await asyncio.wait_for(life, 90) == 1
    async with living(app_of(work=forever)) as (service, life):
        await until(lambda: not service.failing(), seconds=90, what="readiness")
        service.background("more", forever).cancel()
        await asyncio.sleep(0)

        assert not service.failing()

    assert life.result() == 0


async def test_background_tasks_are_cancelled_before_the_app_closes() -> None:
    order: list[str] = []

    async def work() -> None:
        try:
            await forever()
        finally:
            order.append("work cancelled")

    async def closed() -> None:
        order.append("app closed")

    async with living(app_of(after=closed, work=work)) as (service, life):
        await until(lambda: not service.failing(), seconds=90, what="readiness")
        os.kill(os.getpid(), signal.SIGINT)

        assert await asyncio.wait_for(life, 90) == 0

    assert order == ["work cancelled", "app closed"]


async def test_a_service_fails_when_its_app_cannot_start() -> None:
    async def fail() -> None:
        raise RuntimeError("no key, no start")

    async with living(app_of(before=fail())) as (_, life):
        assert await asyncio.wait_for(life, 90) == 1


async def test_a_starting_service_is_alive_but_not_ready_and_can_be_stopped() -> None:
    async with living(app_of(before=forever())) as (service, life):
        assert (await probe(service, "/livez"))[0] == HTTPStatus.OK
        assert await probe(service, "/readyz") == (503, {"ready": False, "failing": ["started"]})
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(life, 90) == 0


async def test_a_false_or_raising_condition_makes_a_service_unready() -> None:
    async with living(app_of()) as (service, _):
        lucky = False
        service.ready_when("luck", lambda: lucky)
        await until(lambda: service.failing() == ["luck"], seconds=90, what="the start")

        assert await probe(service, "/readyz") == (503, {"ready": False, "failing": ["luck"]})

        lucky = True

        assert (await probe(service, "/readyz"))[0] == HTTPStatus.OK

        service.ready_when("broken", lambda: 1 / 0 > 0)

        assert (await probe(service, "/readyz"))[1]["failing"] == ["broken (ZeroDivisionError)"]


async def test_a_stopping_service_is_unready_immediately() -> None:
    slow = SETTINGS.model_copy(update={"stop_delay_seconds": 5.0})
    async with living(app_of(), slow) as (service, life):
        await until(lambda: not service.failing(), seconds=90, what="readiness")
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: service.failing() == ["started"] or life.done(), seconds=90, what="unreadiness")
        assert not life.done()


async def test_a_service_that_exceeds_its_grace_time_fails() -> None:
    brief = SETTINGS.model_copy(update={"stop_grace_seconds": 0.2})
    async with living(app_of(after=forever), brief) as (service, life):
        await until(lambda: not service.failing(), seconds=90, what="readiness")
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(life, 90) == 1


async def test_a_service_is_not_alive_while_its_event_loop_is_stuck() -> None:
    async with living(app_of()) as (service, _):
        await until(lambda: not service.failing(), seconds=90, what="readiness")

        assert (await probe(service, "/livez"))[0] == HTTPStatus.OK

        blocked = time.monotonic()
        # The probes run on the event loop itself and so block it, which must be noticed.
        while (answer := fetch(service.health, "/livez")[0]) == HTTPStatus.OK and time.monotonic() - blocked < 30:
            pass

        assert answer == HTTPStatus.SERVICE_UNAVAILABLE

        async def alive() -> bool:
            return (await probe(service, "/livez"))[0] == HTTPStatus.OK

        await until(alive, seconds=90, what="a turn of the loop")
