"""The routes of schedules: create, list, read, change, pause, resume, run now, delete."""

import asyncio
import hashlib
import secrets
from datetime import datetime
from typing import Any

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_templates.rendering import Wanted

from clusterra_gateway.accounts.roles import manages
from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.http.answers.responses import json_response, no_content
from clusterra_gateway.http.answers.sse import at_position
from clusterra_gateway.http.requests.errors import Conflict, Forbidden, InvalidRequest, NotFound, RequestError
from clusterra_gateway.http.requests.parameters import Parameter, body, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY, idempotency_key
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.templates.launches import Launches
from clusterra_gateway.templates.reading import BOUNDS
from clusterra_gateway.templates.rendering import Prepared
from clusterra_gateway.templates.schedule import InvalidCron, Schedule, check_cron
from clusterra_gateway.templates.schedule_models import NewSchedule, ScheduleChange, ScheduleList, ScheduleView
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.templates.scheduled_submits import ScheduledSubmits, is_refusal

SCHEDULES = "/v1/schedules"
SCHEDULE_ID = Parameter("schedule_id", "path", "^[0-9a-f]{16}$")
SCHEDULE = f"{SCHEDULES}/{{schedule_id}}"
MAX_SCHEDULES = 100
"""How many a tenant may have."""
MAX_BYTES = 64 * 1024
VALUES = frozenset({"params", "inputs", "sbatch_override"})
"""The fields of a schedule that its template reads; a change of one is checked."""

api = caller_routes(SCHEDULE_ID, reads=Needs("jobs:read"), changes=Needs("jobs:write", "member"))


class Schedules:
    """The handlers of schedules."""

    def __init__(
        self,
        records: ScheduleRecords,
        launches: Launches,
        submits: ScheduledSubmits,
        once: AnswerOnce,
        feed: EventFeed,
    ) -> None:
        self._feed = feed
        self._records = records
        self._launches = launches
        self._submits = submits
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
        prepared = await self._checked(caller, ref, wanted)
        cron = wanted.cron or getattr(prepared.found.definition, "schedule", None) or ""
        first = await _first_tick(cron)

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
            await self._records.delete(caller.member, schedule, version)

        await write_optimistically(attempt, contended=_contended())
        return no_content()

    @api.patch("schedules_change", SCHEDULE, body=ScheduleChange, result=ScheduleView)
    async def change(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Changes one's own schedule, pauses or resumes it. An admin can pause and resume those of others.

        Values are checked as at the creation. With another `cron`, and when it is resumed, its next time is one to
        come: nothing is made up for. What it has submitted goes on.
        """
        wanted = await body(request, ScheduleChange, bounds=BOUNDS)

        async def attempt() -> Schedule:
            schedule, version = await self._visible(request, caller)
            changes = wanted.differences(schedule)
            if changes.keys() - {"paused"}:
                _check_owner(caller, schedule, "change", hint="they or an admin can pause it")
            changed = await self._changed(caller, schedule, changes)
            if changes:
                await self._records.change(caller.member, changed, version)
            return changed

        return json_response(ScheduleView.of(await write_optimistically(attempt, contended=_contended()), caller))

    @api.post("schedules_run", f"{SCHEDULE}/run", parameters=(IDEMPOTENCY_KEY,), result=ScheduleView)
    async def run(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Submits the template of one's own schedule once, now, even while it is paused.

        Its next time does not change.

        The answer has the job or the run as `last_job` or `last_run`. 409 while what was submitted before has not
        ended.
        """
        given = idempotency_key(request) or secrets.token_hex(16)

        async def attempt() -> Schedule:
            schedule, version = await self._visible(request, caller)
            _check_owner(caller, schedule, "run", hint="its jobs run as the person who made it")
            key = f"schedule-{schedule.id}-run-{hashlib.sha256(given.encode()).hexdigest()[:24]}"
            if schedule.last_key == key:
                return schedule
            at = now()
            try:
                return await self._submits.submit(
                    (schedule, version), key, at, lambda current, made: current.noting(at, made)
                )
            except (RequestError, RpcFailed) as error:
                if is_refusal(error):
                    await self._submits.release(schedule, key)
                raise

        # Whoever was faster may have left something to be noted first.
        schedule = await write_optimistically(attempt, contended=_contended())
        return json_response(ScheduleView.of(schedule, caller))

    async def _checked(self, caller: Caller, ref: ClusterRef, wanted: NewSchedule) -> Prepared:
        """What would be submitted now. Raises what a submit of these values would."""
        if len(wanted.model_dump_json().encode()) > MAX_BYTES:
            raise InvalidRequest(f"a schedule has at most {MAX_BYTES // 1024} KiB", hint="keep large data in files")
        values = Wanted(wanted.params, wanted.inputs, wanted.sbatch_override)
        prepared = await self._launches.prepare(ref, caller.slurm_user.name, wanted.template_id, values, "check")
        await self._launches.check(caller, ref, prepared)
        return prepared

    async def _changed(self, caller: Caller, schedule: Schedule, changes: dict[str, Any]) -> Schedule:
        changed = schedule.model_copy(update=changes)
        if changes.keys() & VALUES:
            there, ref = await self._launches.on_cluster(caller, schedule.cluster)
            whole = {name: getattr(changed, name) for name in NewSchedule.model_fields if name != "cluster_id"}
            await self._checked(there, ref, NewSchedule.model_construct(**whole))
        if "cron" in changes:
            changed = changed.model_copy(update={"next_tick": await _first_tick(changed.cron)})
        return changed.resumed(now()) if changes.get("paused") is False else changed

    async def _visible(self, request: web.Request, caller: Caller) -> tuple[Schedule, int]:
        found = await self._records.read(caller.member.tenant, path_id(request, SCHEDULE_ID))
        if found is None or not _sees(caller, found[0]):
            raise NotFound("there is no such schedule", hint="GET /v1/schedules lists yours")
        return found


def _sees(caller: Caller, schedule: Schedule) -> bool:
    return schedule.member == caller.member.id or manages(caller.member.role)


def _check_owner(caller: Caller, schedule: Schedule, what: str, *, hint: str) -> None:
    if schedule.member != caller.member.id:
        raise Forbidden(f"only its owner can {what} this schedule", hint=hint)


def _contended() -> Conflict:
    return Conflict("this schedule is being changed or submitted just now", hint="try again in a moment")


async def _first_tick(cron: str) -> datetime:
    """Raises InvalidRequest."""
    try:
        return await asyncio.to_thread(check_cron, cron, now())
    except InvalidCron as error:
        raise InvalidRequest(f"cron: {error}", hint="30 2 * * 1-5 is 02:30 UTC from Monday to Friday") from None
