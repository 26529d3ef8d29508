"""Shard leases on a thread of their own, so that work that blocks the service's event loop loses none of them."""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Coroutine, Mapping
from typing import Any

from clusterra_runtime.nats import bus
from clusterra_runtime.nats.lease import Leases
from clusterra_runtime.nats.lease_terms import PACE, Fences, Lease, Pace, Work
from clusterra_runtime.settings import ServiceSettings

STUCK_SECONDS = 15.0
"""An event loop that is blocked for longer than this loses its leases: another replica may get further."""
_BEAT_SECONDS = 0.5


class LeaseThread:
    """`Leases` with an event loop and a NATS connection of their own, on a thread of their own.

    The guarantees are those of `Leases`. The work runs on the event loop that calls `run`. While that event loop is
    blocked, the leases are renewed, for up to `stuck_seconds`.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        service: str,
        shards: int,
        work: Work,
        *,
        division: str = "",
        fences: Fences | None = None,
        pace: Pace = PACE,
        stuck_seconds: float = STUCK_SECONDS,
    ) -> None:
        self._settings = settings
        self._service = service
        self._shards = shards
        self._work = work
        self._division = division
        self._fences = fences
        self._pace = pace
        self._stuck_seconds = stuck_seconds
        self._beat_at = 0.0
        self._leases: Leases | None = None

    @property
    def held(self) -> Mapping[int, Lease]:
        """The leases that are held at this moment, by shard. Read it again after each await."""
        return self._leases.held if self._leases is not None else {}

    async def run(self) -> None:
        """Compete for shards until cancelled; then end the work and release the shards."""
        caller = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException | None] = caller.create_future()
        stop: concurrent.futures.Future[None] = concurrent.futures.Future()

        def main() -> None:
            failure: BaseException | None = None
            try:
                asyncio.run(self._compete_until(stop, caller))
            except BaseException as error:
                failure = error
            caller.call_soon_threadsafe(ended.set_result, failure)

        self._beat_at = time.monotonic()
        beating = asyncio.create_task(self._beat())
        threading.Thread(target=main, name=f"leases-{self._service}", daemon=True).start()
        try:
            failure = await asyncio.shield(ended)
            raise failure or RuntimeError("the leases ended")
        except asyncio.CancelledError:
            stop.set_result(None)
            await ended
            raise
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            self._beat_at = time.monotonic()
            await asyncio.sleep(_BEAT_SECONDS)

    def _alive(self) -> bool:
        return time.monotonic() - self._beat_at < self._stuck_seconds

    async def _compete_until(self, stop: concurrent.futures.Future[None], caller: asyncio.AbstractEventLoop) -> None:
        """The main coroutine of the thread."""
        competing = asyncio.create_task(self._compete(caller))
        stopping = asyncio.wrap_future(stop)
        await asyncio.wait({competing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        competing.cancel()
        (failure,) = await asyncio.gather(competing, return_exceptions=True)
        if failure is not None and not stopping.done():
            raise failure

    async def _compete(self, caller: asyncio.AbstractEventLoop) -> None:
        client = await bus.connect(self._settings, self._service)
        try:
            self._leases = Leases(
                client,
                self._service,
                self._shards,
                lambda lease: _on(caller, self._work(lease)),
                instance=self._settings.instance,
                division=self._division,
                fences=self._fences,
                pace=self._pace,
                alive=self._alive,
            )
            await self._leases.run()
        finally:
            await bus.close(client)


async def _on(caller: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Run work on another thread's event loop. When cancelled, cancel the work and wait for its end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[BaseException | None] = loop.create_future()
    tasks: list[asyncio.Task[None]] = []

    def begin() -> None:
        task = caller.create_task(work)
        task.add_done_callback(report)
        tasks.append(task)

    def report(task: asyncio.Task[None]) -> None:
        loop.call_soon_threadsafe(ended.set_result, None if task.cancelled() else task.exception())

    caller.call_soon_threadsafe(begin)
    try:
        failure = await asyncio.shield(ended)
    except asyncio.CancelledError:
        caller.call_soon_threadsafe(lambda: tasks[0].cancel())
        await ended
        raise
    if failure is not None:
        raise failure
