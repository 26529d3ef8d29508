"""Visits places again and again: lists them every few seconds, or when an event says so, and visits what is listed."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import structlog
from pydantic import ValidationError

from clusterra_runtime.sweeps.agenda import Agenda, Bounds, Place

log = structlog.get_logger()


class Unfinished(Exception):
    """A visit ended before its work, such as because the cluster did not answer. Whoever raises it has told why."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often places are listed, and how long a visit may take."""

    every_seconds: float
    """Rounds begin about so often: up to a fifth earlier or later, so that replicas do not keep step."""
    visit_seconds: float = 60.0
    """A visit that takes longer is cancelled, and counts as failed."""
    wake_seconds: float = 0.1
    """The time from an event to the round that it wakes. Events within this time wake one round together."""
    at_start: bool = False
    """Whether the first round begins at once."""


@dataclass(frozen=True, slots=True)
class Sweep[K]:
    """What is swept: the keys that `listed` returns are given to `visit`, each at the place that `place` says."""

    name: str
    listed: Callable[[], Awaitable[Iterable[K]]]
    visit: Callable[[K], Awaitable[object]]
    place: Callable[[K], Place]
    failures: tuple[type[Exception], ...] = ()
    """What `listed` and `visit` may raise where another service does not answer."""
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    """When it is set, a round begins early."""


class Sweeper[K]:
    """Runs a sweep. A visit that fails is logged, and stops no other; a fault in `listed` ends the sweeper."""

    def __init__(self, sweep: Sweep[K], pace: Pace, bounds: Bounds) -> None:
        self._sweep = sweep
        self._pace = pace
        self._agenda = Agenda(bounds)
        self._keys: dict[Place, K] = {}

    async def run(self) -> None:
        """Begin a round every few seconds, until cancelled. A visit may go on while later rounds begin."""
        at_once = self._pace.at_start
        async with asyncio.TaskGroup() as visits:
            while True:
                woken = False if at_once else await self._next_round()
                at_once = False
                try:
                    await self._begin_round(woken=woken)
                except self._sweep.failures as error:
                    log.warning("sweep_not_listed", sweep=self._sweep.name, reason=_text(error))
                    continue
                self._begin_visits(visits)

    async def once(self) -> None:
        """Visit each listed place once. Raises what `listed` raises."""
        await self._begin_round(woken=False)
        async with asyncio.TaskGroup() as visits:
            self._begin_visits(visits)

    async def _next_round(self) -> bool:
        """Wait for the next round. Returns whether an event woke it."""
        woken = self._sweep.woken
        try:
            async with asyncio.timeout(self._pace.every_seconds * random.uniform(0.8, 1.2)):  # noqa: S311
                await woken.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(self._pace.wake_seconds)
        woken.clear()
        return True

    async def _begin_round(self, *, woken: bool) -> None:
        listed = dict[Place, K]()
        for key in await self._sweep.listed():
            try:
                listed[self._sweep.place(key)] = key
            except ValidationError as error:
                # A newer release may know where it is. The others have their turn.
                log.error("place_unreadable", sweep=self._sweep.name, problems=error.error_count())  # noqa: TRY400
        self._keys = listed
        self._agenda.begin_round(listed, woken=woken)

    def _begin_visits(self, visits: asyncio.TaskGroup) -> None:
        for place in self._agenda.take():
            visits.create_task(self._visit(visits, place, self._keys[place]))

    async def _visit(self, visits: asyncio.TaskGroup, place: Place, key: K) -> None:
        failed = True
        try:
            failed = await self._has_failed(place, key)
        finally:
            self._agenda.end(place, failed=failed)
        self._begin_visits(visits)

    async def _has_failed(self, place: Place, key: K) -> bool:
        """Visit a place. Returns whether something that it needs did not answer."""
        where = {"sweep": self._sweep.name, "place": str(place)}
        try:
            async with asyncio.timeout(self._pace.visit_seconds):
                await self._sweep.visit(key)
        except Unfinished:
            return True
        except TimeoutError:
            log.warning("visit_failed", **where, reason=f"it took more than {self._pace.visit_seconds:g} s")
            return True
        except ValidationError as error:
            # Not the error's text: it repeats the record. A newer release may read it.
            log.error("visit_found_unreadable", **where, problems=error.error_count())  # noqa: TRY400
        except self._sweep.failures as error:
            log.warning("visit_failed", **where, reason=_text(error))
            return True
        except Exception:
            # One place that a fault of ours stops must not stop the others.
            log.exception("visit_faulty", **where)
        return False


def _text(error: Exception) -> str:
    return str(getattr(error, "detail", "") or error) or type(error).__name__
