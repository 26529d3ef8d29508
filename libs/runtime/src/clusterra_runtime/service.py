"""The lifecycle of a service's process: start, readiness, signal, orderly stop."""

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import structlog

from clusterra_runtime import logs, tracing
from clusterra_runtime.health import HealthServer
from clusterra_runtime.interpreter import switch_often
from clusterra_runtime.settings import ServiceSettings

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
LAST_SPANS_SECONDS = 5.0
"""How long a stopped service may still export its last spans, within the grace time."""

type App = Callable[["Service"], AbstractAsyncContextManager[None]]


class Service:
    """The process, as an app sees it: settings, readiness conditions and background tasks."""

    def __init__(self, name: str, settings: ServiceSettings) -> None:
        self.name = name
        self.settings = settings
        self.log: structlog.stdlib.BoundLogger = structlog.get_logger(name)
        self.health = ""
        """`host:port` of `/livez`, `/readyz` and `/metrics`; empty until they are served."""
        self._checks: dict[str, Callable[[], bool | str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._failed = False
        self._ended_at = 0.0

    def ready_when(self, name: str, check: Callable[[], bool | str]) -> None:
        """Make `check` a condition of readiness: True, or else False or a text that says what is wrong and what to do.

        It runs on the event loop at every probe, so it must not block.
        """
        self._checks[name] = check

    def background(self, name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run a task for as long as the service lives. If it ends or raises, the process stops with exit code 1.

        The task is cancelled when the service stops, before the app's context exits.
        """

        async def supervised() -> None:
            try:
                await run()
            except asyncio.CancelledError:
                # A cancellation that nobody requested is a failure of the task itself.
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

    @property
    def stopping(self) -> asyncio.Event:
        """Set as soon as the service is to stop, before the delay in which it still serves."""
        return self._stop

    def failing(self) -> list[str]:
        """The readiness conditions that are not met: their names, and what is wrong where that is known."""
        return [failure for name, check in self._checks.items() if (failure := _failure(name, check))]

    async def live(self, app: App) -> int:
        """Run the app until a signal, the end of a background task or its own failure. Returns the exit code."""
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
        self._ended_at = time.monotonic()
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

    @property
    def grace_left_seconds(self) -> float:
        """What is left of the grace time once the service has begun to stop."""
        return max(0.0, self._ended_at + self.settings.stop_grace_seconds - time.monotonic())

    async def _cancel_background(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _failure(name: str, check: Callable[[], bool | str]) -> str | None:
    try:
        found = check()
    except Exception as error:
        return f"{name} ({type(error).__name__})"
    if isinstance(found, str):
        return f"{name}: {found}"
    return None if found else name


def run(name: str, settings: ServiceSettings, app: App) -> None:
    """Run a service and exit the process: with 0 after a signal, with 1 if it failed or exceeded its grace time.

    Health, readiness and metrics are served before the app is entered. At SIGTERM or SIGINT the service becomes not
    ready; after a delay its background tasks are cancelled and the app's context exits.
    """
    logs.configure(name, settings.log_level, instance=settings.instance)
    tracing.start(name, settings.instance)
    switch_often()
    service = Service(name, settings)
    exit_code = asyncio.run(service.live(app))
    tracing.stop(min(LAST_SPANS_SECONDS, service.grace_left_seconds))
    sys.exit(exit_code)
