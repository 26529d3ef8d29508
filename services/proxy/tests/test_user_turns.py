"""Requests of a user take turns, and hold nobody else's."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.rpc.slurm import GetJob, Job, Viewer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import nats_server
from clusterra_proxy.cluster.user_turns import user_turns
from clusterra_proxy.requests import handlers
from clusterra_proxy.requests.handlers import Route
from clusterra_proxy.requests.in_flight import InFlight
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.rpc import call
from clusterra_runtime.settings import ServiceSettings

AT_ONCE = 2
REF = ClusterRef(tenant="acme", cluster="main")
ADA, BOB = (Viewer(user=SlurmUser(name=name, uid=uid, gid=uid)) for name, uid in (("ada", 20001), ("bob", 20002)))


async def test_what_a_user_asks_for_holds_up_nobody_else(tmp_path: Path) -> None:
    began, release = list[str](), asyncio.Event()
    cluster: Any = SimpleNamespace(ref=REF, turns=user_turns(AT_ONCE, "requests"))

    async def read(_cluster: Any, request: GetJob) -> Job:
        began.append(request.viewer.user.name)
        await release.wait()
        return Job(job_id="1", name="x", user="ada", uid=20001, state="RUNNING", partition="main", submitted_at=now())

    async with nats_server(tmp_path / "nats") as nats:
        client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")

        async def ask(viewer: Viewer) -> Job:
            request = GetJob(viewer=viewer, job_id="1")
            return await call(client, subjects.slurm(REF, "get"), request, Job, timeout_seconds=60)

        try:
            await Route("get", GetJob, read, handlers._viewer).serve(client, cluster, InFlight())
            many = [asyncio.create_task(ask(ADA)) for _ in range(100)]
            await until(lambda: len(began) >= AT_ONCE, seconds=60, what="reads of ada")
            other = asyncio.create_task(ask(BOB))
            await until(lambda: "bob" in began, seconds=60, what="the read of bob beside them")
            assert began == ["ada"] * AT_ONCE + ["bob"]
            release.set()
            await asyncio.gather(*many, other)
        finally:
            release.set()
            await client.close()
