"""Schedules as the API takes and shows them."""

import json
from typing import Annotated, Any

from clusterra_contracts.identity import Id, Moment
from clusterra_templates.parts import TemplateId
from pydantic import Field, StringConstraints

from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.parameters import Body
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.submission.models import ConfirmedCost
from clusterra_gateway.templates.models import Values
from clusterra_gateway.templates.schedule import Missed, Schedule

Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Cron = Annotated[str, StringConstraints(min_length=9, max_length=200)]
Options = Annotated[dict[str, Any], Field(max_length=50)]
SomeValues = Annotated[dict[str, Any], Field(max_length=200)]


class NewSchedule(Body):
    """A template that is submitted at certain times, as the caller."""

    name: Name
    template_id: TemplateId
    cron: Cron | None = None
    """Minute, hour, day of the month, month, day of the week, in UTC; at least 5 minutes apart. Without it, the
    `schedule` of the template."""
    missed: Missed = "skip"
    """Of ticks that came while nothing could be submitted, none or the last one is made up for, within 12 hours."""
    cluster_id: Id | None = None
    params: Values
    inputs: Values
    sbatch_override: Annotated[dict[str, Any], Field(max_length=50, default_factory=dict)]
    confirmed_usd_per_hour: ConfirmedCost = None
    """The cost per hour in US dollars that the caller has seen and wants for each of its jobs, as in the `job` of a
    submit. A tick whose job is expected to cost more is not submitted where the cluster asks for a confirmation."""


class ScheduleChange(Body):
    """What to change of a schedule. Fields that are not given stay as they are, and so do those that are null except
    `confirmed_usd_per_hour`, where null takes the confirmation back."""

    paused: bool | None = None
    """Pauses it, or resumes it from its next time on: times that came meanwhile are not made up for."""
    name: Name | None = None
    cron: Cron | None = None
    missed: Missed | None = None
    params: SomeValues | None = None
    inputs: SomeValues | None = None
    sbatch_override: Options | None = None
    confirmed_usd_per_hour: ConfirmedCost = None

    def differences(self, schedule: Schedule) -> dict[str, Any]:
        """The fields that differ from the schedule's."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return {
            name: value
            for name, value in given.items()
            # As JSON: true is not 1.
            if (value is not None or name == "confirmed_usd_per_hour")
            and json.dumps(value, sort_keys=True) != json.dumps(getattr(schedule, name), sort_keys=True)
        }


class ScheduleView(ResponseBody):
    """A schedule. `last_job` or `last_run` is what its last submitted tick made."""

    id: str
    name: str
    template_id: str
    cluster_id: str
    cron: str
    missed: Missed
    paused: bool = False
    """A paused schedule submits nothing until it is resumed."""
    params: dict[str, Any]
    inputs: dict[str, Any]
    sbatch_override: dict[str, Any]
    confirmed_usd_per_hour: float | None = None
    mine: bool
    created_at: Moment
    next_tick: Moment
    """Of a paused schedule the next time that is left out, unless it is resumed before."""
    last_tick: Moment | None
    """The last time that was dealt with, or when it was last run at once."""
    last_outcome: str
    last_job: str | None
    last_run: str | None

    @classmethod
    def of(cls, schedule: Schedule, caller: Caller) -> "ScheduleView":
        """What the caller sees of a schedule."""
        return cls.showing(schedule, cluster_id=schedule.cluster, mine=schedule.member == caller.member.id)


class ScheduleList(ResponseBody):
    """The caller's schedules; an admin's are those of everybody."""

    schedules: tuple[ScheduleView, ...]
    total: int
