"""Keeps the state up to date: reads it once, then applies the events of the cluster, and reads what these do not have.

Nothing is polled: between two events no request is sent.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime

from clusterra import AsyncClient
from clusterra.errors import ClusterraError, Forbidden, NotFound
from clusterra.http.retrying import is_transient
from clusterra.http.streams import Connection
from clusterra.operations.events import Gap

from clusterra_cli.live.due_reads import SPACING_SECONDS, DueReads
from clusterra_cli.live.event_facts import Fleet
from clusterra_cli.live.records import job_of_record, money_of, shapes_of, workers_of
from clusterra_cli.live.state import (
    FLEET,
    JOBS,
    MAX_JOBS,
    MONEY,
    State,
    apply,
    with_fleet,
    with_jobs,
    with_queue,
    without_ended,
    without_job,
)

RETRY_SECONDS = 2.0
"""After a read that failed for now."""
MAX_MISSED = 20_000
"""Events that come during one read of the queue. After more, it is read again."""


class Feed:
    """The state of one cluster, as long as `run` runs. `changed` is called after each change."""

    def __init__(self, client: AsyncClient, user: str | None = None) -> None:
        self._client = client
        self._user = user
        self._due = DueReads()
        self._wake = asyncio.Event()
        self._since: list[Mapping[str, object]] | None = None
        """The events since a read began; None while nothing is read."""
        self.changed: Callable[[], None] = lambda: None
        self.state = State(user=user)
        self.away_since: datetime | None = None
        """Since when the stream of events is broken; None while it is open."""
        self.away_because = ""
        self.gaps = 0

    async def run(self) -> None:
        """Read the state, and follow the events until the task is cancelled.

        Raises the errors of `clusterra.errors` that do not pass, and Unreachable where nobody answers at the start.
        """
        position = await self._read_all()
        reading = asyncio.create_task(self._read_what_is_due())
        following = asyncio.create_task(self._follow(position))
        try:
            await asyncio.wait({reading, following}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, following):
                task.cancel()
            ended = await asyncio.gather(reading, following, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _read_all(self) -> str | None:
        """Read everything. Returns the position of the events from which the stream goes on."""
        self.state = replace(self.state, shapes=shapes_of(await self._client.shapes()))
        first = await self._client.request("GET", "/v1/clusters/{cluster}/jobs", query={"limit": 1})
        for key in (JOBS, FLEET, MONEY):
            self.state = (await self._answer(key))(self.state)
        self.changed()
        return first.headers.get("event-position")

    async def _follow(self, position: str | None) -> None:
        async with aclosing(self._client.event_stream(position, connections=True)) as stream:
            async for streamed in stream:
                match streamed:
                    case Connection(error=None):
                        self.away_since, self.away_because = None, ""
                    case Connection(error=error):
                        self.away_since = self.away_since or datetime.now(UTC)
                        self.away_because = error or ""
                    case Gap():
                        self.gaps += 1
                        self._mark(JOBS, FLEET, MONEY)
                    case _:
                        self._apply(streamed.event.data)
                        continue
                self.changed()

    def _apply(self, data: Mapping[str, object]) -> None:
        if self._since is not None:
            self._since.append(data)
        applied = apply(self.state, data)
        self._mark(*applied.due)
        if applied.state is not self.state:
            self.state = without_ended(applied.state, datetime.now(UTC))
            self.changed()

    def _mark(self, *keys: str) -> None:
        for key in keys:
            self._due.add(key, time.monotonic())
        if keys:
            self._wake.set()

    async def _read_what_is_due(self) -> None:
        while True:
            self._wake.clear()
            key = self._due.taken(time.monotonic())
            if key is None:
                await self._woken(self._due.wait(time.monotonic()))
                continue
            try:
                await self._read(key)
            except NotFound:
                if key in (JOBS, FLEET, MONEY):
                    raise
                self.state = without_job(self.state, key)
                self.changed()
            except ClusterraError as error:
                if not is_transient(error):
                    raise
                self._mark(key)
                await asyncio.sleep(RETRY_SECONDS)
            await asyncio.sleep(SPACING_SECONDS)

    async def _woken(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _read(self, key: str) -> None:
        """Read a record again. The events that come meanwhile are applied to it once more: it may be older."""
        self._since = since = list[Mapping[str, object]]()
        try:
            read = await self._answer(key)
        finally:
            self._since = None
        state = read(self.state)
        for data in since[:MAX_MISSED]:
            state = apply(state, data).state
        if len(since) > MAX_MISSED:
            self._mark(JOBS)
        self.state = state
        self.changed()

    async def _answer(self, key: str) -> Callable[[State], State]:
        """What a record changes of the state. What the caller may not see of fleet and costs stays empty."""
        try:
            return await self._asked(key)
        except Forbidden:
            if key not in (FLEET, MONEY):
                raise
            return lambda state: state

    async def _asked(self, key: str) -> Callable[[State], State]:
        client = self._client
        match key:
            case "jobs":
                jobs = [job_of_record(each) async for each in client.jobs(user=self._user, limit=MAX_JOBS + 1)]
                return lambda state: with_queue(state, jobs, more=len(jobs) > MAX_JOBS)
            case "fleet":
                nodes = await client.nodes()
                fleet = await client.fetch(
                    Fleet,
                    "GET",
                    "/v1/clusters/{cluster}/fleet",
                    query={"after": datetime.now(UTC).isoformat()},
                )
                desired = {each.shape: each.desired for each in fleet.now if each.desired is not None}
                return lambda state: with_fleet(state, workers_of(nodes, state.shapes), desired)
            case "money":
                money = money_of(await client.costs("job"), await client.quotas())
                return lambda state: replace(state, money=money)
        record = job_of_record(await client.job(key).refresh())
        return lambda state: with_jobs(state if record.job_id == key else without_job(state, key), (record,))
