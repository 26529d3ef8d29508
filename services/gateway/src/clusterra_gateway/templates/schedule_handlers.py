"""The routes of schedules: create, list, read, delete."""

import asyncio
import secrets
from typing import Annotated, Any

from aiohttp import web
from clusterra_contracts.identity import Id, Moment, now
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_templates.parts import TemplateId
from clusterra_templates.rendering import Wanted
from pydantic import Field, StringConstraints

from clusterra_gateway.accounts.roles import manages
from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.answers.sse import at_position
from clusterra_gateway.http.requests.errors import Conflict, Forbidden, InvalidRequest, NotFound
from clusterra_gateway.http.requests.parameters import Body, Parameter, body, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.submission.models import ConfirmedCost
from clusterra_gateway.templates.launches import Launches
from clusterra_gateway.templates.models import Values
from clusterra_gateway.templates.reading import BOUNDS
from clusterra_gateway.templates.schedule import InvalidCron, Missed, Schedule, ScheduleRecords, check_cron

SCHEDULES = "/v1/schedules"
SCHEDULE_ID = Parameter("schedule_id", "path", "^[0-9a-f]{16}$")
SCHEDULE = f"{SCHEDULES}/{{schedule_id}}"
MAX_SCHEDULES = 100
"""How many a tenant may have."""
MAX_BYTES = 64 * 1024


api = caller_routes(SCHEDULE_ID, reads=Needs("jobs:read"), changes=Needs("jobs:write", "member"))


class NewSchedule(Body):
    """A template that is submitted at certain times, as the caller."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
    template_id: TemplateId
    cron: Annotated[str, StringConstraints(min_length=9, max_length=200)] | None = None
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


class ScheduleView(ResponseBody):
    """A schedule. `last_job` or `last_run` is what its last submitted tick made."""

    id: str
    name: str
    template_id: str
    cluster_id: str
    cron: str
    missed: Missed
    params: dict[str, Any]
    inputs: dict[str, Any]
    sbatch_override: dict[str, Any]
    confirmed_usd_per_hour: float | None = None
    mine: bool
    created_at: Moment
    next_tick: Moment
    last_tick: Moment | None
    last_outcome: str
    last_job: str | None
    last_run: str | None

    @classmethod
    def of(cls, schedule: Schedule, caller: Caller) -> "ScheduleView":
        """What the caller sees of a schedule."""
        shown = schedule.model_dump(exclude={"tenant", "member", "cluster"})
        return cls(**shown, cluster_id=schedule.cluster, mine=schedule.member == caller.member.id)


class ScheduleList(ResponseBody):
    """The caller's schedules; an admin's are those of everybody."""

    schedules: tuple[ScheduleView, ...]
    total: int


class Schedules:
    """The handlers of schedules."""

    def __init__(self, records: ScheduleRecords, launches: Launches, once: AnswerOnce, feed: EventFeed) -> None:
        self._feed = feed
        self._records = records
        self._launches = launches
        self._once = once

    @api.post(
        "schedules_create",
        SCHEDULES,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=NewSchedule,
        result=ScheduleView,
        names=(Named(SCHEDULE, "/id"),),
    )
    async def create(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Submits a template again and again, at the times of a cron expression, each time exactly once.

        Where what was submitted before has not ended, a tick is left out. The values are checked now, and rendered
        again at each tick with the version of the template that is in use then. 404 for a template or a cluster that
        there is not.
        """
        wanted = await body(request, NewSchedule, bounds=BOUNDS)
        caller, ref = await self._launches.on_cluster(caller, wanted.cluster_id)
        if len(wanted.model_dump_json().encode()) > MAX_BYTES:
            raise InvalidRequest(f"a schedule has at most {MAX_BYTES // 1024} KiB", hint="keep large data in files")
        values = Wanted(wanted.params, wanted.inputs, wanted.sbatch_override)
        prepared = await self._launches.prepare(ref, caller.slurm_user.name, wanted.template_id, values, "check")
        await self._launches.check(caller, ref, prepared)
        cron = wanted.cron or getattr(prepared.found.definition, "schedule", None) or ""
        try:
            first = await asyncio.to_thread(check_cron, cron, now())
        except InvalidCron as error:
            raise InvalidRequest(f"cron: {error}", hint="30 2 * * 1-5 is 02:30 UTC from Monday to Friday") from None

        async def create() -> ScheduleView:
            if len(await self._records.of_tenant(caller.member.tenant)) >= MAX_SCHEDULES:
                raise Conflict(f"there are {MAX_SCHEDULES} schedules, the most allowed", hint="delete an unused one")
            schedule = Schedule(
                id=secrets.token_hex(8),
                tenant=ref.tenant,
                cluster=ref.cluster,
                member=caller.member.id,
                created_at=now(),
                next_tick=first,
                cron=cron,
                **wanted.model_dump(exclude={"cluster_id", "cron"}),
            )
            await self._records.create(caller.member, schedule)
            return ScheduleView.of(schedule, caller)

        return await self._once.answer(request, caller.owner_key, wanted, create)

    @api.get("schedules_list", SCHEDULES, result=ScheduleList, names=(Named(SCHEDULE, "/schedules/0/id"),))
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the caller's schedules, with their next time and what became of the last one. Admins see all.

        `Event-Position` is the Last-Event-ID with which the streams of events tell everything after this list.
        """
        position = self._feed.position
        found = [each for each in await self._records.of_tenant(caller.member.tenant) if _sees(caller, each)]
        shown = tuple(ScheduleView.of(each, caller) for each in found)
        return json_response(ScheduleList(schedules=shown, total=len(shown)), headers=at_position(position))

    @api.get("schedules_get", SCHEDULE, result=ScheduleView)
    async def get(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns a schedule."""
        schedule, _ = await self._visible(request, caller)
        return json_response(ScheduleView.of(schedule, caller))

    @api.delete("schedules_delete", SCHEDULE)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Deletes a schedule. What it has submitted goes on."""

        async def attempt() -> None:
            schedule, version = await self._visible(request, caller)
            if schedule.member != caller.member.id and not manages(caller.member.role):
                raise Forbidden("this schedule belongs to another person", hint="they or an admin can delete it")
            await self._records.delete(caller.member, schedule, version)

        contended = Conflict("this schedule is being submitted just now", hint="try again in a moment")
        await write_optimistically(attempt, contended=contended)
        return no_content()

    async def _visible(self, request: web.Request, caller: Caller) -> tuple[Schedule, int]:
        found = await self._records.read(caller.member.tenant, path_id(request, SCHEDULE_ID))
        if found is None or not _sees(caller, found[0]):
            raise NotFound("there is no such schedule", hint="GET /v1/schedules lists yours")
        return found


def _sees(caller: Caller, schedule: Schedule) -> bool:
    return schedule.member == caller.member.id or manages(caller.member.role)
