"""The life of a service's process: start, ready, the signal, the orderly stop."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import structlog

from clusterra_runtime import logs
from clusterra_runtime.health import HealthServer
from clusterra_runtime.settings import ServiceSettings

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

type App = Callable[["Service"], AbstractAsyncContextManager[None]]


class Service:
    """What an app is given to wire itself into its process."""

    def __init__(self, name: str, settings: ServiceSettings) -> None:
        self.name = name
        self.settings = settings
        self.log: structlog.stdlib.BoundLogger = structlog.get_logger(name)
        self.health = ""
        """`host:port` of `/livez`, `/readyz` and `/metrics`, once it is served."""
        self._checks: dict[str, Callable[[], bool]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._failed = False

    def ready_when(self, what: str, check: Callable[[], bool]) -> None:
        """Make `check` a condition of readiness. It is asked at every probe, on the event loop: it must not block."""
        self._checks[what] = check

    def background(self, name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run for as long as the service lives: should it end or raise, the process stops with exit code 1.

        It is cancelled at the stop, before the app's context exits.
        """

        async def supervised() -> None:
            try:
                await run()
            except asyncio.CancelledError:
                # One that nobody asked for comes from the inside and is a death like any other.
                if task.cancelling():
                    raise
                self.log.exception("background_task_died", task=name)
            except Exception:
                self.log.exception("background_task_died", task=name)
            else:
                self.log.error("background_task_ended", task=name)
            self._failed = True
            self._stop.set()

        task = asyncio.create_task(supervised(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def failing(self) -> list[str]:
        """The names of the conditions of readiness that are not met."""
        return [failure for what, check in self._checks.items() if (failure := _failure(what, check))]

    async def live(self, app: App) -> int:
        """Run the app until a signal, a dead background task or its own failure; returns the exit code."""
        loop = asyncio.get_running_loop()
        entered = asyncio.Event()
        self.ready_when("started", lambda: entered.is_set() and not self._stop.is_set())
        health = HealthServer(self.settings, self.failing)
        health.start()
        self.health = health.address
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop.set)
        self.log.info("service_starting", health=self.health)
        life = asyncio.create_task(self._live(app, entered), name="app")
        try:
            return await self._end(life, entered)
        finally:
            await self._cancel_background()
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
            health.stop()

    async def _live(self, app: App, entered: asyncio.Event) -> None:
        async with app(self):
            entered.set()
            self.log.info("service_started")
            await self._stop.wait()
            await asyncio.sleep(self.settings.stop_delay_seconds)
            await self._cancel_background()

    async def _end(self, life: asyncio.Task[None], entered: asyncio.Event) -> int:
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({life, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._stop.is_set():
            self.log.info("service_stopping")
            if not entered.is_set():
                life.cancel()
        await asyncio.wait({life}, timeout=self.settings.stop_grace_seconds)
        if not life.done():
            self.log.error("service_not_stopped_in_time", seconds=self.settings.stop_grace_seconds)
            life.cancel()
            await asyncio.wait({life})
            return 1
        if not life.cancelled() and (error := life.exception()) is not None:
            self.log.error("service_failed", exc_info=error)
            return 1
        self.log.info("service_stopped")
        return 1 if self._failed else 0

    async def _cancel_background(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _failure(what: str, check: Callable[[], bool]) -> str | None:
    try:
        return None if check() else what
    except Exception as error:
        return f"{what} ({type(error).__name__})"


def run(name: str, settings: ServiceSettings, app: App) -> None:
    """Run a service and exit the process: 0 after a signal, 1 when it failed or did not stop in its grace time.

    Health, readiness and metrics are served from before the app is entered. At SIGTERM or SIGINT: not ready, a
    brief delay, background tasks are cancelled, the app's context exits.
    """
    logs.configure(name, settings.log_level, instance=settings.instance)
    sys.exit(asyncio.run(Service(name, settings).live(app)))
