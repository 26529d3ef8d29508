"""A read reaches another replica of the proxy when the one that got it is held up; a submit is sent once."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, SlurmUser, Wire, now
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import (
    Cancel,
    CountJobs,
    GetJob,
    Job,
    JobCounts,
    JobDescription,
    JobPage,
    ListJobs,
    ListWatched,
    Submit,
    Viewer,
)
from clusterra_gateway.bus import requests
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import RpcFailed, serve
from clusterra_runtime.settings import ServiceSettings

REF = ClusterRef(tenant="acme", cluster="main")
ADA = SlurmUser(name="ada", uid=20001, gid=20001)
VIEWER = Viewer(user=ADA)
JOB = Job(job_id="7", name="hello", user="ada", uid=20001, state="RUNNING", partition="main", submitted_at=now())
REQUESTS: dict[str, type[Wire]] = {
    "get": GetJob,
    "list": ListJobs,
    "count": CountJobs,
    "submit": Submit,
    "cancel": Cancel,
}


@pytest.fixture
async def client(nats: NatsServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr(requests, "REPEAT_READ_SECONDS", (0.05, 0.1))
    client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    yield client
    await bus.close(client)


@pytest.fixture
async def held_up(client: Client) -> AsyncIterator[list[str]]:
    """A replica that takes requests and answers none while a test runs: what it takes."""
    taken, over = list[str](), asyncio.Event()

    async def never(subject: Subject, _request: Wire) -> Job:
        taken.append(subject.rest)
        await over.wait()
        return JOB

    for operation, request in REQUESTS.items():
        await serve(client, f"slurm.acme.main.{operation}", request, never)
    yield taken
    over.set()  # or the client would wait for these requests before it closes


async def test_the_replica_that_watches_answers_in_place_of_one_that_is_held_up(
    client: Client, held_up: list[str]
) -> None:
    async def get(_subject: Subject, _request: GetJob) -> Job:
        return JOB

    async def listed(_subject: Subject, _request: ListWatched) -> JobPage:
        return JobPage(jobs=(JOB,), total=1)

    async def counted(_subject: Subject, _request: CountJobs) -> JobCounts:
        return JobCounts(states={"RUNNING": 1}, total=1)

    await serve(client, "slurm.acme.main.get-watched", GetJob, get)
    await serve(client, "slurm.acme.main.list-watched", ListWatched, listed)
    await serve(client, "slurm.acme.main.count-watched", CountJobs, counted)
    slurm = SlurmRequests(client)

    async with asyncio.timeout(90):
        assert await slurm.job(REF, VIEWER, "7") == JOB
        assert (await slurm.jobs(REF, ListJobs(viewer=VIEWER))).jobs == (JOB,)
        assert (await slurm.counts(REF, ListJobs(viewer=VIEWER))).total == 1
    assert held_up == ["get", "list", "count"]


async def test_an_error_that_is_an_answer_ends_the_waiting(client: Client, held_up: list[str]) -> None:
    async def get(_subject: Subject, _request: GetJob) -> Job:
        raise RpcFailed(RpcError(kind="not_found", detail="there is no such job"))

    await serve(client, "slurm.acme.main.get-watched", GetJob, get)

    async with asyncio.timeout(90):
        with pytest.raises(RpcFailed, match="there is no such job"):
            await SlurmRequests(client).job(REF, VIEWER, "7")
    assert held_up == ["get"]


async def test_a_slow_replica_answers_although_nobody_watches(client: Client) -> None:
    async def slow(_subject: Subject, _request: GetJob) -> Job:
        await asyncio.sleep(0.3)
        return JOB

    await serve(client, "slurm.acme.main.get", GetJob, slow)

    async with asyncio.timeout(90):
        assert await SlurmRequests(client).job(REF, VIEWER, "7") == JOB


async def test_a_change_is_sent_once(client: Client, held_up: list[str]) -> None:
    slurm = SlurmRequests(client)
    job = JobDescription(environment=("PATH=/bin",))

    changes = asyncio.gather(
        slurm.submit(REF, Submit(user=ADA, script="#!/bin/sh\n", job=job)), slurm.cancel(REF, VIEWER, "7")
    )
    done, _ = await asyncio.wait({changes}, timeout=1.0)
    changes.cancel()
    await asyncio.gather(changes, return_exceptions=True)

    assert not done
    assert sorted(held_up) == ["cancel", "submit"]
