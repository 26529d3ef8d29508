"""Submits the schedules that are due, each tick exactly once.

One replica does it at a time: the holder of a lease. That saves work and is no guarantee. The guarantee is the key of
the submit, which names the schedule and the tick: two replicas, or one after another that died, make one job.
"""

from collections.abc import Callable
from datetime import datetime

import structlog
from clusterra_contracts.identity import now
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.optimistic_write import Overtaken
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.http.requests.errors import InFlight, OutcomeUnknown, RequestError, Unavailable
from clusterra_gateway.templates.schedule import LATE, Outcome, Schedule
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.templates.scheduled_submits import ScheduledSubmits, is_refusal

log = structlog.get_logger()

INTERVAL_SECONDS = 5.0
TICK_SECONDS = 60.0
"""A submit that takes longer is gone on with in the next round."""
BOUNDS = Bounds(at_once=8, per_cluster=4)
ALL_READ_EVERY = LATE / 2
"""How often all schedules are read, for those that a replica of the release before has made while both ran: so that no
tick of theirs is missed. All other rounds read what is due."""

type _Stored = tuple[Schedule, int]
"""A schedule and the version of its record."""


class Ticking:
    """Submits what is due, again and again."""

    def __init__(self, schedules: ScheduleRecords, submits: ScheduledSubmits) -> None:
        self._schedules = schedules
        self._submits = submits
        self._all_read_at: datetime | None = None
        self.clock: Callable[[], datetime] = now
        """What time it is; tests say it."""

    def sweeper(self) -> Sweeper[_Stored]:
        """Submits all that is due. A schedule that cannot be submitted delays no other."""
        sweep = Sweep("schedules", self._due, self._deal_with, _place, (StoreError, RequestError, RpcFailed))
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, TICK_SECONDS, at_start=True), BOUNDS)

    async def _due(self) -> list[_Stored]:
        at = self.clock()
        if self._all_read_at is None or abs(at - self._all_read_at) >= ALL_READ_EVERY:
            await self._schedules.add_missing_to_index()
            self._all_read_at = at
        return await self._schedules.due(at)

    async def _deal_with(self, stored: _Stored) -> None:
        (schedule, version), at = stored, self.clock()
        tick, latest = schedule.due(at), schedule.latest(at)
        assert latest is not None  # noqa: S101 - only schedules with a tick are dealt with
        if tick is None:
            outcome: str | None = "missed"
            await self._schedules.replace(schedule.after(latest, Outcome("missed")), version)
        else:
            outcome = await self._submitted(schedule, version, tick)
        if outcome is not None:
            log.info("schedule_dealt_with", schedule=schedule.id, outcome=outcome)

    async def _submitted(self, schedule: Schedule, version: int, tick: datetime) -> str | None:
        """What became of a tick; None where it is not known yet, so that it is tried again."""
        key = schedule.key(tick)

        def note(current: Schedule, made: Outcome) -> Schedule:
            return current.after(tick, made)

        try:
            return (await self._submits.submit((schedule, version), key, self.clock(), note)).last_outcome
        except (Overtaken, InFlight, OutcomeUnknown, Unavailable):
            return None
        except (RequestError, RpcFailed) as error:
            told = error.error if isinstance(error, RpcFailed) else error
            if is_refusal(error):
                return (await self._submits.note(schedule, key, _refused(told.detail, told.hint), note)).last_outcome
            if isinstance(error, RpcFailed):
                return None
            raise


def _refused(detail: str, hint: str) -> Outcome:
    return Outcome(f"not submitted: {'; '.join(part for part in (detail, hint) if part)}")


def _place(stored: _Stored) -> Place:
    schedule, _ = stored
    return Place(schedule.tenant, schedule.cluster, schedule.id)
