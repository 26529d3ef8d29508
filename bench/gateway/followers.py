"""Measures how often the edge is read while many people follow one job's output."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import ClientSession, ClientTimeout, TCPConnector
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.rpc.edge import ReadLog
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.nats import bus

STREAMS_EACH = 40
"""Streams of one service account; the gateway allows it 50."""
LINES = 20
PATIENCE_SECONDS = 120.0
SCRIPT = "#!/bin/sh\necho first\nsleep 900\n"


@dataclass
class Followers:
    """Many streams of one output, and the reads that reach the edge meanwhile."""

    lab: Stack
    path: str
    reads: int = 0
    heard: list[bytearray] = field(default_factory=list)

    async def follow(self, key: str, index: int) -> None:
        """One stream, to its end or until it is cancelled."""
        headers = {"Authorization": f"Bearer {key}"}
        timeout, connector = ClientTimeout(total=None), TCPConnector(limit=1)
        async with (
            ClientSession(self.lab.gateway_url, headers=headers, timeout=timeout, connector=connector) as session,
            session.get(self.path) as answer,
        ):
            assert answer.status == 200, await answer.text()
            async for data in answer.content.iter_any():
                self.heard[index] += data

    async def all_heard(self, line: bytes) -> None:
        """Wait until every stream has had this line."""
        await until(
            lambda: all(line in each for each in self.heard),
            seconds=PATIENCE_SECONDS,
            what=f"all followers to hear {line.decode()}",
            every=0.05,
        )


async def follow(lab: Stack, admin: User, number: int, progress: Progress) -> dict[str, float]:
    """Follow the output of a running job by this many streams while lines are written to it."""
    progress(f"{number} followers of one output")
    keys = [await admin.service_account_key(f"follower-{each}") for each in range(-(-number // STREAMS_EACH))]
    submitted = await admin.submit(SCRIPT, {"name": "followed", "cpus_per_task": 1})
    output = lab.slurm.shared_dir / f"job_{submitted.job_id}.out"
    await until(output.exists, seconds=PATIENCE_SECONDS, what="the job's output")
    followers = Followers(lab, f"/v1/clusters/{admin.cluster}/jobs/{submitted.job_id}/output/stream")
    followers.heard = [bytearray() for _ in range(number)]
    async with _reads_counted(followers), asyncio.TaskGroup() as tasks:
        streams = [tasks.create_task(followers.follow(keys[index // STREAMS_EACH], index)) for index in range(number)]
        await followers.all_heard(b"first")
        before = followers.reads
        for number_of_line in range(LINES):
            with output.open("a") as file:
                file.write(f"line {number_of_line} ends\n")
            await followers.all_heard(f"line {number_of_line} ends".encode())
        reads = followers.reads - before
        for stream in streams:
            stream.cancel()
    await admin.cancel(submitted.job_id)
    return {"followers": number, "follower_reads_per_line": reads / LINES}


@asynccontextmanager
async def _reads_counted(followers: Followers) -> AsyncIterator[None]:
    async def count(_subject: Subject, _request: ReadLog) -> None:
        followers.reads += 1

    lab = followers.lab
    subscription = await bus.subscribe(lab.bus, subjects.edge(lab.cluster, "log"), ReadLog, count)
    try:
        yield
    finally:
        await subscription.unsubscribe()
