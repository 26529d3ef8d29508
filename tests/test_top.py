"""`clusterra top` on the lab: the screen follows the events of the cluster, and asks for nothing between them."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout, web
from clusterra import AsyncClient, SignInNeeded
from clusterra_cli.live.dialogs import Question
from clusterra_cli.live.job_screens import JobScreen, OutputScreen
from clusterra_cli.live.screen import TopApp
from clusterra_cli.live.table import JobTable
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import ApiToken, User
from clusterra_lab.stack.stack import Stack
from command_line import CommandLine
from textual.pilot import Pilot

SECONDS = 90.0
SLEEP = "#!/bin/sh\necho begun\nsleep {seconds}\n"
HOSTILE = "[bold]x[/]\x1b[2J\x1b]0;owned\x07"
HEADERS = ("Authorization", "Last-Event-ID", "Accept", "Content-Type", "Idempotency-Key")


@dataclass
class Relay:
    """Stands between the program and the gateway, and counts the requests."""

    gateway: str
    address: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    loses: bool = False
    """Whether the next stream of events is asked for behind a position that the gateway does not retain."""
    _streams: list[web.Request] = field(default_factory=list)

    def lose_events(self) -> None:
        """Break the streams, so that events are missing when they are opened again."""
        self.loses = True
        for each in self._streams:
            if each.transport is not None:
                each.transport.abort()
        self._streams.clear()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests[f"{request.method} {request.path}"] += 1
        headers = {name: request.headers[name] for name in HEADERS if name in request.headers}
        headers["Accept-Encoding"] = "identity"
        if request.path.endswith("/events/stream"):
            self._streams.append(request)
            if self.loses:
                headers["Last-Event-ID"], self.loses = "999999999", False
        try:
            return await self._passed_on(request, headers)
        except (ClientError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)

    async def _passed_on(self, request: web.Request, headers: dict[str, str]) -> web.StreamResponse:
        async with (
            ClientSession(timeout=ClientTimeout(total=None), auto_decompress=False) as session,
            session.request(
                request.method, f"{self.gateway}{request.path_qs}", headers=headers, data=await request.read()
            ) as answer,
        ):
            response = web.StreamResponse(status=answer.status)
            for name in ("Content-Type", "Event-Position", "Retry-After"):
                if name in answer.headers:
                    response.headers[name] = answer.headers[name]
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response


@asynccontextmanager
async def relayed(gateway: str) -> AsyncIterator[Relay]:
    relay = Relay(gateway)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", relay.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    relay.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield relay
    finally:
        await runner.cleanup()


@pytest.fixture
async def token(ada: User) -> ApiToken:
    async with ada.session.post("/v1/users/me/tokens", json={"name": "top"}) as answer:
        return ApiToken.model_validate(await answer.json())


@pytest.fixture
async def relay(lab: Stack) -> AsyncIterator[Relay]:
    async with relayed(lab.gateway_url) as relay:
        yield relay


@pytest.fixture
async def client(relay: Relay, ada: User, token: ApiToken) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(relay.address, token.token, cluster=ada.cluster) as client:
        yield client


@pytest.fixture
async def submitter(lab: Stack, ada: User, token: ApiToken) -> AsyncIterator[AsyncClient]:
    """Another program of the same person, which cancels what it leaves."""
    async with AsyncClient(lab.gateway_url, token.token, cluster=ada.cluster) as client:
        yield client
        try:
            left = [each.job_id async for each in client.jobs(state="PENDING,RUNNING")]
            for job_id in left:
                await client.job(job_id).cancel()
        except SignInNeeded:
            pass


def text(pilot: Pilot[None]) -> str:
    """What is on the screen."""
    app = pilot.app
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def shows(pilot: Pilot[None], wanted: Callable[[str], bool], what: str) -> str:
    seen = ""

    async def is_shown() -> bool:
        nonlocal seen
        error = getattr(pilot.app, "error", None)
        if error is not None:
            raise error
        await pilot.pause()
        seen = text(pilot)
        return wanted(seen)

    try:
        await until(is_shown, seconds=SECONDS, what=what)
    except TimeoutError as error:
        raise AssertionError(f"{error}; the screen:\n{seen}") from error
    return seen


def row(screen: str, job_id: str) -> list[str]:
    return next((line.split() for line in screen.splitlines() if line.split()[:1] == [job_id]), [])


def in_state(job_id: str, state: str) -> Callable[[str], bool]:
    return lambda screen: state in row(screen, job_id)


async def quiet(relay: Relay, seconds: float) -> None:
    """Wait until no request has come for so long: then nothing is due any more."""

    async def unchanged() -> bool:
        before = relay.requests.copy()
        await asyncio.sleep(seconds)
        return relay.requests == before

    await until(unchanged, seconds=SECONDS, what="no request to be due")


async def test_a_job_from_its_submit_to_its_end_without_a_poll(
    relay: Relay, client: AsyncClient, submitter: AsyncClient
) -> None:
    app = TopApp(client)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, lambda screen: "this month" in screen, "the first state")
        job = await submitter.submit(SLEEP.format(seconds=300), {"name": HOSTILE, "time_limit": 5})
        pending = await shows(pilot, lambda screen: bool(row(screen, job.id)), "the job to appear")
        running = await shows(pilot, in_state(job.id, "RUNNING"), "the job to run")
        assert "\x1b" not in pending + running
        assert "[bold]x[/]" in running
        assert all(len(line) <= 80 for line in running.splitlines())
        assert len(running.splitlines()) == 24

        await quiet(relay, 6.0)
        before, clock = relay.requests.copy(), row(text(pilot), job.id)
        await shows(pilot, lambda screen: row(screen, job.id) != clock, "the time of the job to go on")
        assert relay.requests == before
        assert app.feed.state.jobs[job.id].state == "RUNNING"

        await submitter.job(job.id).cancel()
        await shows(pilot, in_state(job.id, "CANCELLED"), "the job to end")
    jobs = f"/v1/clusters/{submitter.cluster}/jobs"
    assert relay.requests[f"GET {jobs}/stream"] == 0
    assert relay.requests[f"GET {jobs}"] == 2
    assert relay.requests[f"GET /v1/clusters/{submitter.cluster}/events/stream"] == 1
    assert sum(relay.requests.values()) < 40, relay.requests


async def test_the_keys(client: AsyncClient, submitter: AsyncClient) -> None:
    job = await submitter.submit(SLEEP.format(seconds=300), {"name": HOSTILE, "time_limit": 9, "hold": True})
    app = TopApp(client, "ada")
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, lambda screen: "JobHeldUser" in screen or "(JobHeld" in screen, "the held job")
        await pilot.press("home")
        table = app.query_one(JobTable)
        assert table.chosen is not None
        assert table.chosen.job_id == job.id
        await pilot.press("r")
        await shows(pilot, in_state(job.id, "RUNNING"), "the released job to run")

        await pilot.press("enter")
        await shows(pilot, lambda screen: "why" in screen and "submitted" in screen, "the job's record")
        assert isinstance(app.screen, JobScreen)
        assert "\\x1b[2J" in text(pilot)
        await pilot.press("escape", "l")
        await shows(pilot, lambda screen: "begun" in screen, "the output")
        assert isinstance(app.screen, OutputScreen)
        await pilot.press("escape", "question_mark")
        await shows(pilot, lambda screen: "Enter   the job" in screen, "the keys")
        await pilot.press("escape")

        await pilot.press("c")
        asked = await shows(pilot, lambda screen: f"Cancel job {job.id}" in screen, "the question")
        assert isinstance(app.screen, Question)
        assert "[bold]x[/]\\x1b[2J" in asked
        await pilot.press("n", "s", "S", "m")
        await shows(pilot, lambda screen: "by id, reversed   only ada" in screen, "the order and the filter")
        while app.view.states != {"RUNNING"}:
            await pilot.press("t")
        await shows(pilot, lambda screen: "only RUNNING ada" in screen, "the filter")
        assert app.feed.state.jobs[job.id].state == "RUNNING"
        assert table.chosen.job_id == job.id
        await pilot.press("c")
        await shows(pilot, lambda screen: f"Cancel job {job.id}" in screen, "the question")
        await pilot.press("y")

        async def cancelled() -> bool:
            return (await submitter.job(job.id).refresh()).state == "CANCELLED"

        await until(cancelled, seconds=SECONDS, what="the job to be cancelled")


async def test_a_gateway_that_restarts_is_waited_for(lab: Stack, client: AsyncClient, submitter: AsyncClient) -> None:
    app = TopApp(client)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, lambda screen: "this month" in screen, "the first state")
        job = await submitter.submit(SLEEP.format(seconds=300), {"name": "stays", "time_limit": 9})
        await shows(pilot, lambda screen: bool(row(screen, job.id)), "the job to appear")
        lab.services["gateway"].kill()
        away = await shows(pilot, lambda screen: "THE GATEWAY IS AWAY since" in screen, "the outage")
        assert row(away, job.id)

        await lab.restart("gateway")
        await shows(pilot, lambda screen: "AWAY" not in screen, "the gateway to be back")
        other = await submitter.submit(SLEEP.format(seconds=1), {"name": "later", "time_limit": 5})
        await shows(pilot, in_state(other.id, "COMPLETED"), "the other job to end")


async def test_a_gap_means_that_the_queue_is_read_once(
    relay: Relay, client: AsyncClient, submitter: AsyncClient
) -> None:
    job = await submitter.submit(SLEEP.format(seconds=300), {"name": "held", "time_limit": 9, "hold": True})
    jobs = f"GET /v1/clusters/{submitter.cluster}/jobs"
    app = TopApp(client)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, lambda screen: bool(row(screen, job.id)), "the job")
        before = relay.requests[jobs]
        relay.lose_events()
        await submitter.job(job.id).cancel()
        await shows(pilot, in_state(job.id, "CANCELLED"), "what the missing events had")
        await quiet(relay, 6.0)

    assert app.feed.gaps == 1
    assert relay.requests[jobs] == before + 1


async def test_a_revoked_token_ends_it(client: AsyncClient, ada: User, token: ApiToken) -> None:
    app = TopApp(client)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, lambda screen: "this month" in screen, "the first state")
        async with ada.session.delete(f"/v1/users/me/tokens/{token.id}") as answer:
            assert answer.status == 204

        async def ended() -> bool:
            return app.error is not None

        await until(ended, seconds=SECONDS, what="the program to end")
    assert isinstance(app.error, SignInNeeded)


async def test_json_lines(lab: Stack, ada: User, token: ApiToken, submitter: AsyncClient, tmp_path: Path) -> None:
    given = {"CLUSTERRA_URL": lab.gateway_url, "CLUSTERRA_TOKEN": token.token, "CLUSTERRA_CLUSTER": ada.cluster}
    command = CommandLine(tmp_path, given)
    no_terminal = await command("top")
    process = await command.start("top", "--json", "--user", "ada")
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        first = json.loads(await process.stdout.readline())
        job = await submitter.submit(SLEEP.format(seconds=1), {"name": "lines", "time_limit": 5})
        states: list[str] = []
        while "COMPLETED" not in states:
            line = json.loads(await process.stdout.readline())
            if line["kind"] == "job" and line["job"]["job_id"] == job.id:
                states.append(line["job"]["state"])
        async with ada.session.delete(f"/v1/users/me/tokens/{token.id}") as answer:
            assert answer.status == 204
        _, told = await process.communicate()

    assert first["kind"] == "snapshot"
    assert list(dict.fromkeys(states)) == ["PENDING", "RUNNING", "COMPLETED"]
    assert process.returncode == 4, told
    assert (no_terminal.code, "terminal" in no_terminal.err) == (2, True), no_terminal
