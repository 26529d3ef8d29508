"""One Idempotency-Key over two gateways and two proxies, which are killed at the worst moments: one job, one id."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientSession
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.fleet import RunningService, fleet
from clusterra_lab.stack.services import services
from clusterra_lab.stack.stack import Stack

SUBMISSION = {"script": "#!/bin/sh\ntrue\n", "job": {"environment": ["PATH=/bin"], "hold": True, "cpus_per_task": 1}}
SETTLES_SECONDS = 90.0

type Answer = tuple[int, dict[str, Any]]


@dataclass
class Replicas:
    """Two gateways and two proxies of the lab."""

    lab: Stack
    ada: User
    sessions: list[ClientSession]
    """Ada's session at each gateway."""
    gateways: list[RunningService]
    proxies: list[RunningService]

    async def submit(self, gateway: int, key: str, body: dict[str, Any] = SUBMISSION) -> Answer:
        path = f"/v1/clusters/{self.ada.cluster}/jobs/submit"
        headers = {"Idempotency-Key": key}
        async with self.sessions[gateway].post(path, json=body, headers=headers) as answer:
            if answer.status in (409, 504):
                assert int(answer.headers["Retry-After"]) >= 1
            return answer.status, await answer.json()

    async def answered(self, gateway: int, key: str) -> dict[str, Any]:
        """Ask until there is an answer, faster than Retry-After says."""

        async def asked() -> dict[str, Any] | None:
            status, answer = await self.submit(gateway, key)
            assert status in (201, 409, 503, 504), answer
            return answer if status == 201 else None

        return await until(asked, seconds=SETTLES_SECONDS, what="the job of the key", every=0.5)

    async def jobs(self, key: str) -> list[str]:
        """The ids of Slurm's jobs with this key."""
        shown = await self.lab.slurm.run("squeue", "--all", "--noheader", "--states=all", "--format=%i %k")
        assert shown.returncode == 0, shown
        return [line.split()[0] for line in shown.stdout.splitlines() if f"key={key}" in line]


@dataclass(frozen=True)
class Second:
    """A second gateway and a second proxy."""

    gateway: RunningService
    proxy: RunningService
    url: str


@pytest.fixture(scope="module")
async def second(lab: Stack) -> AsyncIterator[Second]:
    commands = {command.name: command for command in services(lab.parts, {})}
    port = free_port()
    gateway = replace(
        commands["gateway"],
        name="gateway-2",
        environment={**commands["gateway"].environment, "CLUSTERRA_HTTP_PORT": str(port)},
    )
    async with fleet([gateway, replace(commands["proxy"], name="proxy-2")], lab.home.logs) as started:
        yield Second(started["gateway-2"], started["proxy-2"], f"http://127.0.0.1:{port}")


@pytest.fixture
async def replicas(lab: Stack, ada: User, second: Second) -> AsyncIterator[Replicas]:
    for killed in (second.gateway, second.proxy):
        if not killed.alive:
            await killed.restart()
    served = second.proxy.log
    await until(lambda: "cluster_served" in served.read_text(), seconds=30, what="the second proxy")
    async with ClientSession(second.url, cookie_jar=ada.session.cookie_jar) as session:
        yield Replicas(
            lab,
            ada,
            [ada.session, session],
            [lab.services["gateway"], second.gateway],
            [lab.services["proxy"], second.proxy],
        )


@pytest.fixture
def key() -> str:
    return str(uuid.uuid4())


@contextmanager
def stalled(lab: Stack) -> Iterator[None]:
    """slurmctld is stopped (SIGSTOP): it takes requests, and carries them out at the end of the block."""
    daemons = lab.slurm["slurmctld"].processes()
    for daemon in daemons:
        daemon.suspend()
    try:
        yield
    finally:
        for daemon in daemons:
            daemon.resume()


async def sent_to_slurm(replicas: Replicas) -> None:
    """Wait until a submit must have reached the stalled slurmctld."""
    await asyncio.sleep(2)


async def test_a_key_sent_to_both_gateways_at_once_makes_one_job(replicas: Replicas) -> None:
    for _ in range(5):
        key = str(uuid.uuid4())

        answers = await asyncio.gather(*(replicas.submit(gateway, key) for gateway in (0, 1, 0, 1)))

        assert {status for status, _ in answers} <= {201, 409}
        repeated = [(await replicas.answered(gateway, key))["job_id"] for gateway in (0, 1)]
        assert await replicas.jobs(key) == [repeated[0]]
        assert {answer["job_id"] for status, answer in answers if status == 201} | set(repeated) == {repeated[0]}
        await replicas.ada.cancel(repeated[0])


async def test_another_body_or_person_is_not_answered_with_the_job(replicas: Replicas, key: str) -> None:
    first = await replicas.answered(0, key)

    status, problem = await replicas.submit(1, key, SUBMISSION | {"script": "#!/bin/sh\nfalse\n"})
    assert (status, problem["type"]) == (422, "/v1/problems/key-reused")

    async with replicas.lab.user("grace@acme.example") as grace:
        other = await grace.submit("#!/bin/sh\ntrue\n", {"hold": True}, key=key)
        assert other.job_id != first["job_id"]
        await grace.cancel(other.job_id)
    await replicas.ada.cancel(first["job_id"])


async def test_a_timeout_of_slurmrestd_that_did_submit(replicas: Replicas, key: str) -> None:
    with stalled(replicas.lab):
        status, problem = await replicas.submit(0, key)

    assert (status, problem["type"]) == (504, "/v1/problems/outcome-unknown")
    assert "nobody knows yet" in problem["detail"]
    answer = await replicas.answered(1, key)
    assert answer["repeated"] is True
    assert await replicas.jobs(key) == [answer["job_id"]]
    await replicas.ada.cancel(answer["job_id"])


async def test_a_gateway_that_is_killed_between_claim_and_answer(replicas: Replicas, key: str) -> None:
    with stalled(replicas.lab):
        lost = asyncio.create_task(replicas.submit(1, key))
        await sent_to_slurm(replicas)
        replicas.gateways[1].kill()
        with suppress(ClientConnectionError):
            await lost

    answer = await replicas.answered(0, key)
    assert answer["repeated"] is True
    assert await replicas.jobs(key) == [answer["job_id"]]
    await replicas.ada.cancel(answer["job_id"])


async def test_proxies_that_are_killed_between_slurms_acceptance_and_their_answer(replicas: Replicas, key: str) -> None:
    with stalled(replicas.lab):
        lost = asyncio.create_task(replicas.submit(0, key))
        await sent_to_slurm(replicas)
        for proxy in replicas.proxies:
            proxy.kill()
        status, problem = await replicas.submit(1, key)
        assert (status, problem["type"]) == (409, "/v1/problems/in-flight")

    await replicas.lab.restart("proxy")
    answer = await replicas.answered(1, key)
    assert answer["repeated"] is True
    assert await replicas.jobs(key) == [answer["job_id"]]
    lost.cancel()
    await replicas.ada.cancel(answer["job_id"])
