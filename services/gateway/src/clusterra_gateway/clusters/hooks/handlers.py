"""The handlers of what sites tell: one event, or many records at once."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

from aiohttp import web
from clusterra_contracts.events import Event
from clusterra_contracts.hook_http import (
    BATCH_PATH,
    CLUSTER_HEADER,
    EVENTS_PATH,
    MAX_RECORDS,
    TENANT_HEADER,
    BatchAnswer,
    HookAnswer,
    HookBatch,
    HookEvent,
    JobDetail,
    JobHookEvent,
    MachineRecord,
    RecordAnswer,
)
from clusterra_contracts.identity import ClusterRef, arrival
from clusterra_contracts.wrong_values import summary
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.rate_limit import RateLimit
from pydantic import ValidationError

from clusterra_gateway.clusters.agents.heartbeats import AgentRoute
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner
from clusterra_gateway.clusters.hooks.facts import job_events, machine_event, machine_record
from clusterra_gateway.clusters.hooks.telling import Telling
from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.errors import Conflict, Forbidden, TooManyRequests
from clusterra_gateway.http.requests.json_body import BodyBounds
from clusterra_gateway.http.requests.parameters import Parameter, body
from clusterra_gateway.http.routes.route_group import RouteGroup

EVENTS_PER_SECOND = 20
"""Of one cluster, after a burst of `EVENTS_AT_ONCE`: a hook sends what it has kept while we were away."""
EVENTS_AT_ONCE = 600
BATCHES_PER_SECOND = 1
BATCHES_AT_ONCE = 20
AT_ONCE = 8
"""How many records of one batch are told at the same time."""
_ONE = BodyBounds(512 * 1024, 6000)
_MANY = BodyBounds(2 * 1024 * 1024, MAX_RECORDS * 60)

_ID = "^[a-z0-9][a-z0-9-]{0,38}$"
_NAMED = (
    Parameter(TENANT_HEADER, "header", _ID, "The tenant of the key."),
    Parameter(CLUSTER_HEADER, "header", _ID, "The cluster of the key."),
)

hooks: RouteGroup[[web.Request, AgentKeyOwner]] = RouteGroup(AgentRoute)


class Hooks:
    """The handlers. A site tells of its own cluster alone, which its agent key names."""

    def __init__(self, registry: Registry, telling: Telling) -> None:
        self._registry = registry
        self._telling = telling
        self._events = RateLimit(EVENTS_PER_SECOND, EVENTS_AT_ONCE)
        self._batches = RateLimit(BATCHES_PER_SECOND, BATCHES_AT_ONCE)

    @hooks.post("hook_event", EVENTS_PATH, parameters=_NAMED, body=HookEvent, result=HookAnswer)
    async def event(self, request: web.Request, owner: AgentKeyOwner) -> web.StreamResponse:
        """Takes one event from the site of a cluster, of a job or of a machine.

        A hook of the site's own Slurm tells of jobs, and EventBridge of machines, in the form in which it delivers.
        What is sent again is told once. 409 for a job of a cluster whose Slurm is not the site's own: Clusterra itself
        tells its jobs.
        """
        _admit(self._events, owner.ref)
        _check_headers(request, owner)
        told = (await body(request, HookEvent, bounds=_ONE)).root
        for each in (told, told.detail):
            _check_ids(each.tenant_id, each.cluster_id, owner)
        if isinstance(told, JobHookEvent):
            self._check_attached(owner.ref)
            events = job_events(owner.ref, told.detail)
        else:
            record = machine_record(told)
            events = [] if record is None else [machine_event(owner.ref, record)]
        return json_response(HookAnswer(events=await self._telling.tell(owner.ref, events)))

    @hooks.post("hook_batch", BATCH_PATH, parameters=_NAMED, body=HookBatch, result=BatchAnswer)
    async def batch(self, request: web.Request, owner: AgentKeyOwner) -> web.StreamResponse:
        """Takes many records of jobs and machines from the site of a cluster.

        Each record is taken or refused by itself, and the answer says which. What is sent again is told once. 409 for
        jobs of a cluster whose Slurm is not the site's own.
        """
        _admit(self._batches, owner.ref)
        _check_headers(request, owner)
        batch = await body(request, HookBatch, bounds=_MANY)
        _check_ids(batch.tenant_id, batch.cluster_id, owner)
        if batch.tables.jobs.update:
            self._check_attached(owner.ref)
        turns = asyncio.Semaphore(AT_ONCE)

        async def tell(table: Literal["jobs", "nodes"], index: int, read: Callable[[], list[Event]]) -> RecordAnswer:
            try:
                events = read()
            except (ValidationError, Forbidden) as error:
                why = summary(error, whole="the record") if isinstance(error, ValidationError) else str(error)
                return RecordAnswer(table=table, index=index, problem=why)
            async with turns:
                return RecordAnswer(table=table, index=index, events=await self._telling.tell(owner.ref, events))

        answers = await asyncio.gather(*(tell(*each) for each in _records(batch, owner)))
        refused = sum(bool(each.problem) for each in answers)
        return json_response(BatchAnswer(accepted=len(answers) - refused, refused=refused, records=tuple(answers)))

    def _check_attached(self, ref: ClusterRef) -> None:
        binding = self._registry.get(ref)
        if binding is None or not binding.attached:
            raise Conflict(
                "Clusterra itself tells the jobs of this cluster",
                hint="send jobs only of a cluster that is `attached`: one whose Slurm is your own",
            )


def _records(
    batch: HookBatch, owner: AgentKeyOwner
) -> Iterator[tuple[Literal["jobs", "nodes"], int, Callable[[], list[Event]]]]:
    for index, row in enumerate(batch.tables.jobs.update):
        yield "jobs", index, partial(_job, owner, row)
    for index, row in enumerate(batch.tables.nodes.upsert):
        yield "nodes", index, partial(_machine, owner, row)


def _job(owner: AgentKeyOwner, row: Any) -> list[Event]:
    detail = JobDetail.model_validate(row, context=arrival())
    _check_ids(detail.tenant_id, detail.cluster_id, owner)
    return job_events(owner.ref, detail)


def _machine(owner: AgentKeyOwner, row: Any) -> list[Event]:
    record = MachineRecord.model_validate(row, context=arrival())
    _check_ids(record.tenant_id, record.cluster_id, owner)
    return [machine_event(owner.ref, record)]


def _admit(limit: RateLimit, ref: ClusterRef) -> None:
    taken = limit.take(ref.key)
    if not taken.admitted:
        raise TooManyRequests("this cluster's site sends faster than allowed", hint="wait a second and send it again")


def _check_headers(request: web.Request, owner: AgentKeyOwner) -> None:
    named = (request.headers.get(TENANT_HEADER), request.headers.get(CLUSTER_HEADER))
    if named != (owner.tenant, owner.cluster):
        raise Forbidden(
            "this agent key belongs to another cluster than the headers name",
            hint=f"send {TENANT_HEADER} and {CLUSTER_HEADER} with the ids of the key's cluster",
        )


def _check_ids(tenant: str | None, cluster: str | None, owner: AgentKeyOwner) -> None:
    if tenant not in (None, owner.tenant) or cluster not in (None, owner.cluster):
        raise Forbidden(
            "this agent key belongs to another cluster than the body names",
            hint="send the ids of the key's cluster, or none",
        )
