"""Schedules, templates that are submitted at certain times: when each is due, and what is missed."""

import operator
import re
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Annotated, Any, Literal, NamedTuple

from clusterra_contracts.identity import Id, Moment
from clusterra_templates.parts import TemplateId
from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from clusterra_gateway.accounts.records import Record
from clusterra_gateway.idempotency.key import KEEP_SECONDS
from clusterra_gateway.submission.models import ConfirmedCost

LEAST_SECONDS = 300
"""The shortest time between two ticks."""
LOOKED_AT = 400
"""The ticks whose distances are looked at: more than a day of the fastest schedule."""
LOOKED_AHEAD = timedelta(days=36_525)
"""How far ahead. Some ticks are decades apart, and dates end with the year 9999."""
LATE = timedelta(minutes=10)
"""A tick that was not submitted for this long is missed."""
OLDEST = timedelta(seconds=KEEP_SECONDS // 2)
"""A tick that is older is never submitted: the key of its submit lives twice as long, and without it a second job
could be made."""

_FIELD = re.compile(r"[0-9A-Za-z*/,-]{1,100}")

Missed = Literal["skip", "last"]
"""What is done about ticks that were missed: none of them is submitted, or the last one."""


def _cron(text: str) -> str:
    try:
        CronSim(text, datetime.now(UTC))
    except CronSimError as error:
        raise ValueError(str(error)) from None
    return text


class Schedule(Record):
    """A schedule as it is stored. Times are in UTC."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    tenant: str
    cluster: Id
    name: str
    member: str
    """The id of its owner. Its jobs run as this person."""
    template_id: TemplateId
    params: dict[str, Any]
    inputs: dict[str, Any]
    sbatch_override: dict[str, Any]
    confirmed_usd_per_hour: ConfirmedCost = None
    """What its owner has confirmed for each of its jobs."""
    cron: Annotated[str, AfterValidator(_cron)]
    missed: Missed
    paused: Annotated[bool, Field(exclude_if=operator.not_)] = False
    """Whether its ticks are left out until it is resumed. Left out of what is written while it is not."""
    created_at: Moment
    next_tick: Moment
    """While it is paused, the tick that would have been the next."""
    last_tick: Moment | None = None
    last_outcome: str = ""
    """What became of the last tick, for the owner to read."""
    last_job: str | None = None
    last_run: str | None = None
    submitting: Annotated[str, Field(exclude_if=operator.not_)] = ""
    """The key of a submit that has begun and is not noted yet. There is one at a time."""
    submitting_since: Annotated[Moment | None, Field(exclude_if=operator.not_)] = None
    last_key: Annotated[str, Field(exclude_if=operator.not_)] = ""
    """The key of the last submit that made something."""

    def due(self, at: datetime) -> datetime | None:
        """The tick to submit now; None if none is due, or all due ticks were missed and are not made up for."""
        tick = self.latest(at)
        if tick is None or at - tick > OLDEST:
            return None
        return tick if self.missed == "last" or at - tick <= LATE else None

    def latest(self, at: datetime) -> datetime | None:
        """The last tick that has come and is not dealt with yet; None where none has come."""
        if self.next_tick > at:
            return None
        # Ticks that are too old are not counted one by one.
        tick = max(self.next_tick, next_tick(self.cron, at - OLDEST - timedelta(days=1)))
        if tick > at:
            return self.next_tick
        for following in CronSim(self.cron, tick):
            if following > at:
                break
            tick = following
        return tick

    def after(self, tick: datetime, outcome: "Outcome") -> "Schedule":
        """This schedule once a tick, and all before it, are dealt with."""
        following = self.next_tick if self.next_tick > tick else next_tick(self.cron, tick)
        return self.noting(tick, outcome).model_copy(update={"next_tick": following})

    def noting(self, at: datetime, outcome: "Outcome") -> "Schedule":
        """This schedule with what became of a submit. Its next tick stays."""
        made = {"last_job": outcome.job, "last_run": outcome.run} if outcome.submitted else {}
        return self.model_copy(update={"last_tick": at, "last_outcome": outcome.text, **made})

    def claimed(self, key: str, at: datetime) -> "Schedule":
        """This schedule while a submit by a key goes on."""
        return self.model_copy(update={"submitting": key, "submitting_since": at})

    def released(self, made_by: str | None = None) -> "Schedule":
        """This schedule when no submit goes on; `made_by` is the key of the one that has made something."""
        made = {} if made_by is None else {"last_key": made_by}
        return self.model_copy(update={"submitting": "", "submitting_since": None, **made})

    def resumed(self, at: datetime) -> "Schedule":
        """This schedule when it is not paused any more: its next tick is one to come."""
        return self.model_copy(update={"paused": False, "next_tick": next_tick(self.cron, at)})

    def key(self, tick: datetime) -> str:
        """The idempotency key of a tick's submit. Whoever submits it, there is one job."""
        return f"schedule-{self.id}-{int(tick.timestamp())}"


class Outcome(NamedTuple):
    """What became of a submit: `text` is for the owner to read. One that has submitted has a job or a run."""

    text: str
    job: str | None = None
    run: str | None = None

    @property
    def submitted(self) -> bool:
        """Whether something was submitted."""
        return self.job is not None or self.run is not None


class InvalidCron(ValueError):
    """Text that is no schedule. It says why."""


def check_cron(text: str, at: datetime) -> datetime:
    """The first tick of an expression with five fields, in UTC, after `at`. Raises InvalidCron."""
    fields = text.split()
    if len(fields) != 5 or not all(map(_FIELD.fullmatch, fields)):
        raise InvalidCron("it must have five fields: minute, hour, day of the month, month, day of the week")
    try:
        soon = takewhile(lambda tick: tick < at + LOOKED_AHEAD, CronSim(text, at))
        ticks = list(islice(soon, LOOKED_AT))
    except CronSimError as error:
        raise InvalidCron(str(error)) from None
    if not ticks:
        raise InvalidCron("it never comes")
    gaps = (later - tick for tick, later in pairwise(ticks))
    if min(gaps, default=timedelta(days=1)).total_seconds() < LEAST_SECONDS:
        raise InvalidCron(f"its times must be at least {LEAST_SECONDS // 60} minutes apart, such as */5 * * * *")
    return ticks[0]


def next_tick(cron: str, after: datetime) -> datetime:
    """The first tick after a moment. An expression that was checked always has one within 50 years."""
    return next(CronSim(cron, after), datetime.max.replace(tzinfo=UTC))
