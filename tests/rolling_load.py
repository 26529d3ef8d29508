"""A bounded load of one user: submits, reads, log followers and an event follower. The client honours Retry-After."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientError, ClientPayloadError, ClientResponse, ClientTimeout
from clusterra_contracts.events import Event
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.parts.sse import events
from clusterra_lab.parts.user import User

LINES = 6
SCRIPT = f'#!/bin/bash\nfor line in $(seq 1 {LINES}); do echo "line $line of $SLURM_JOB_ID"; sleep 0.4; done\n'
OPTIONS: dict[str, Any] = {"cpus_per_task": 1, "memory_per_cpu": 2 * GIB, "environment": ["PATH=/usr/bin:/bin"]}
FOLLOWED = 3
"""Every so many jobs one is followed."""
MAX_JOBS = 400
_READ_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0
"""A client gives up when it is told to come back later for longer than this."""


@dataclass
class Load:
    """What the client saw."""

    user: User
    reads: int = 0
    """Answered reads of single jobs."""
    jobs: dict[str, str] = field(default_factory=dict)
    """Idempotency key of a submit -> the job's id."""
    logs: dict[str, str] = field(default_factory=dict)
    """Followed job -> its output as the stream delivered it, up to the `end` event."""
    feed: list[tuple[int, Event]] = field(default_factory=list)
    """Events of the cluster with their positions, as the stream delivered them."""
    failures: list[str] = field(default_factory=list)
    """Answers and broken connections that such a client reports as errors."""
    later: int = 0
    """Answers that asked the client to come back later."""
    resumed: int = 0
    """Streams that ended early and were resumed by their last id."""
    slowest_seconds: float = 0.0
    """The longest time from a request to its answer, with all waits."""
    followers: set[asyncio.Task[None]] = field(default_factory=set)
    _stopping: bool = False
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def summary(self) -> str:
        """The load in one line."""
        return (
            f"{len(self.jobs)} jobs, {self.reads} reads, {len(self.logs)} logs and {len(self.feed)} events followed, "
            f"{self.later} times told to come back later, {self.resumed} streams resumed, "
            f"slowest answer after {self.slowest_seconds:.1f} s"
        )

    async def submit_every(self, seconds: float) -> None:
        """Submit a job every so many seconds, without waiting for the answers, until `stop`."""
        async with asyncio.TaskGroup() as submits:
            for number in range(MAX_JOBS):
                if self._stopping:
                    break
                submits.create_task(self._submit(number))
                await asyncio.sleep(seconds)
        self._stopped.set()

    async def stop(self, seconds: float) -> None:
        """Submit no more jobs, and wait for all answers and for the end of all followed logs. Raises TimeoutError."""
        self._stopping = True
        async with asyncio.timeout(seconds):
            await self._stopped.wait()
            while self.followers:
                await asyncio.wait(set(self.followers))

    async def read_every(self, seconds: float) -> None:
        """Read the last submitted job every so many seconds, until cancelled."""
        while True:
            if job_id := next(reversed(self.jobs.values()), None):
                await self._request("GET", f"/v1/clusters/{self.user.cluster}/jobs/{job_id}")
                self.reads += 1
            await asyncio.sleep(seconds)

    async def _submit(self, number: int) -> None:
        """Submit one job, until it is accepted or has failed."""
        key = f"rolling-{number:04}"
        body = {"script": SCRIPT, "job": {"name": key, **OPTIONS}}
        path = f"/v1/clusters/{self.user.cluster}/jobs/submit"
        answer = await self._request("POST", path, json=body, headers={"Idempotency-Key": key})
        if answer is not None:
            self.jobs[key] = job_id = str(json.loads(answer)["job_id"])
            if number % FOLLOWED == 0:
                self._start(self._follow_log(job_id))

    async def _request(self, method: str, path: str, **options: Any) -> str | None:
        """Send a request until it is answered with success; None if it has failed."""
        began = time.monotonic()
        while time.monotonic() < began + _PATIENCE_SECONDS:
            try:
                async with self.user.session.request(method, path, **options) as response:
                    text = await response.text()
            except (ClientError, TimeoutError) as error:
                self.failures.append(f"{method} {path}: {error!r}")
                return None
            if response.status in (200, 201):
                self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
                return text
            if not await self._told_to_wait(response, f"{method} {path}: {text}"):
                return None
        self.failures.append(f"{method} {path}: not accepted in {_PATIENCE_SECONDS:.0f} s")
        return None

    async def _follow_log(self, job_id: str) -> None:
        path, text, last = f"/v1/clusters/{self.user.cluster}/jobs/{job_id}/output/stream", "", "0"
        while True:
            async for kind, data, position in self._stream(path, last):
                if kind == "end":
                    self.logs[job_id] = text
                    return
                text, last = text + data, position

    async def follow_events(self) -> None:
        """Follow the cluster's events until cancelled."""
        path, last = f"/v1/clusters/{self.user.cluster}/events/stream", ""
        while True:
            async for kind, data, position in self._stream(path, last):
                if kind == "reset":
                    self.failures.append(f"the event stream was reset at {position}")
                else:
                    self.feed.append((int(position), Event.model_validate_json(data)))
                last = position

    async def _stream(self, path: str, last: str) -> AsyncIterator[tuple[str, str, str]]:
        """Events of one connection; ends when the server ends it."""
        headers = {"Last-Event-ID": last} if last else {}
        try:
            async with self.user.session.get(path, headers=headers, timeout=ClientTimeout(total=None)) as response:
                if response.status != 200:
                    await self._told_to_wait(response, f"{path}: {await response.text()}")
                    return
                async for event in events(response):
                    yield event.event, event.data, event.id or last
            self.resumed += 1
        except ClientPayloadError:
            self.resumed += 1
        except ClientError as error:
            self.failures.append(f"{path}: {error!r}")
        await asyncio.sleep(0.2)

    async def _told_to_wait(self, response: ClientResponse, what: str) -> bool:
        """Wait as the answer asks; other errors are failures, and False."""
        after = response.headers.get("Retry-After")
        if response.status not in (409, 429, 503, 504) or after is None:
            self.failures.append(f"{response.status} {what}")
            await asyncio.sleep(1)
            return False
        self.later += 1
        await asyncio.sleep(float(after))
        return True

    def _start(self, follower: Any) -> None:
        task = asyncio.create_task(follower)
        self.followers.add(task)
        task.add_done_callback(self.followers.discard)


@asynccontextmanager
async def load(user: User, *, every_seconds: float) -> AsyncIterator[Load]:
    """Follow the events and read until the block ends; submit a job `every_seconds` until `stop`, at most MAX_JOBS."""
    under = Load(user)
    work = (under.follow_events(), under.submit_every(every_seconds), under.read_every(_READ_SECONDS))
    running = [asyncio.create_task(each) for each in work]
    try:
        yield under
    finally:
        for task in (*running, *under.followers):
            task.cancel()
        await asyncio.gather(*running, *under.followers, return_exceptions=True)
