"""Two gateways and two proxies of one lab, which tests kill while the same key is submitted to them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import ClientSession, TCPConnector
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
    urls: list[str]
    """The address of each gateway."""
    gateways: list[RunningService]
    proxies: list[RunningService]

    async def submit(self, gateway: int, key: str, body: dict[str, Any] = SUBMISSION) -> Answer:
        path = f"/v1/clusters/{self.ada.cluster}/jobs/submit"
        headers = {"Idempotency-Key": key}
        async with self.sessions[gateway].post(path, json=body, headers=headers) as answer:
            if answer.status in (409, 504):
                assert int(answer.headers["Retry-After"]) >= 1
            return answer.status, await answer.json()

    async def answered(self, gateway: int, key: str, body: dict[str, Any] = SUBMISSION) -> dict[str, Any]:
        """Ask until there is an answer, faster than Retry-After says."""

        async def asked() -> dict[str, Any] | None:
            status, answer = await self.submit(gateway, key, body)
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


@asynccontextmanager
async def second_replicas(lab: Stack) -> AsyncIterator[Second]:
    """Run a second gateway and a second proxy in the lab until the block ends."""
    commands = {command.name: command for command in services(lab.parts, {})}
    port = free_port()
    gateway = replace(
        commands["gateway"],
        name="gateway-2",
        environment={
            **commands["gateway"].environment,
            "CLUSTERRA_HTTP_PORT": str(port),
            "CLUSTERRA_SESSIONS_PORT": "0",
        },
    )
    async with fleet([gateway, replace(commands["proxy"], name="proxy-2")], lab.home.logs) as started:
        yield Second(started["gateway-2"], started["proxy-2"], f"http://127.0.0.1:{port}")


@asynccontextmanager
async def all_replicas(lab: Stack, ada: User, second: Second) -> AsyncIterator[Replicas]:
    """All four of them, alive, with Ada's sessions until the block ends."""
    for killed in (second.gateway, second.proxy):
        if not killed.alive:
            await killed.restart()
    served = second.proxy.log
    await until(lambda: "cluster_served" in served.read_text(), seconds=90, what="the second proxy")
    async with ClientSession(second.url, cookie_jar=ada.session.cookie_jar, connector=TCPConnector(limit=0)) as session:
        yield Replicas(
            lab,
            ada,
            [ada.session, session],
            [lab.gateway_url, second.url],
            [lab.services["gateway"], second.gateway],
            [lab.services["proxy"], second.proxy],
        )
