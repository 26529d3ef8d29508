"""The routes that change a job after its submit: hold, release, requeue, signal, update.

Each takes a job, an array, a task or some tasks. Who acted stands in the job's history, as an event `action.<name>`.
"""

from functools import partial

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm_jobs import (
    Action,
    FurtherChanges,
    Hold,
    JobChanges,
    Release,
    Requeue,
    SendSignal,
    Signal,
    Update,
)
from pydantic import ConfigDict, StrictBool

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.answers.responses import no_content
from clusterra_gateway.http.requests.field_errors import Hints
from clusterra_gateway.http.requests.parameters import JOBS, Body, body, selected_jobs
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY, REPLAYED, ScopedKey, idempotency_key
from clusterra_gateway.idempotency.once import ChangeOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import (
    Needs,
    cluster_routes,
)
from clusterra_gateway.jobs.handlers import JOB
from clusterra_gateway.money.quotas.admission import PricedUpdates
from clusterra_gateway.submission.reading import LEFT_OUT, UNCHANGEABLE

_HINTS: Hints = {(name,): f"leave it out: {reason}" for name, reason in (LEFT_OUT | UNCHANGEABLE).items()}


api = cluster_routes(JOBS, changes=Needs("jobs:write", "member"))


class RequestedChanges(JobChanges, FurtherChanges):
    """What of a job can be changed after its submit. What is null, or not given, stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def update(self) -> Update:
        """The change as a message has it."""
        return Update(
            changes=JobChanges.model_validate(self.model_dump(include=set(JobChanges.model_fields))),
            further=FurtherChanges.model_validate(self.model_dump(include=set(FurtherChanges.model_fields))),
        )


class RequeueOptions(Body):
    """How a job is queued again."""

    hold: StrictBool = False
    """Whether the job is then held until it is released."""


class SignalToSend(Body):
    """The signal for the processes of a running job."""

    signal: Signal
    batch_only: StrictBool = False
    """Whether only the batch script gets it, and not the job's steps."""


class JobChangeHandlers:
    """The handlers of changes."""

    def __init__(self, slurm: SlurmRequests, updates: PricedUpdates, once: ChangeOnce) -> None:
        self._slurm = slurm
        self._updates = updates
        self._once = once

    @api.post("jobs_hold", f"{JOB}/hold", parameters=(IDEMPOTENCY_KEY,))
    async def hold(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Keeps a pending job from starting until it is released. What an admin holds, only an admin releases.

        409 for a job that is not pending. Slurm holds a whole array, or tasks that were started before.
        """
        return await self._change(request, caller, ref, Hold())

    @api.post("jobs_release", f"{JOB}/release", parameters=(IDEMPOTENCY_KEY,))
    async def release(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lets a held job start. Does nothing to a pending job that is not held; 409 for one that is not pending."""
        return await self._change(request, caller, ref, Release())

    @api.post("jobs_requeue", f"{JOB}/requeue", parameters=(IDEMPOTENCY_KEY,), body=RequeueOptions)
    async def requeue(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Ends a running job and queues it again, or queues a job again that has ended and that Slurm still knows.

        409 for a pending job and for one that cannot be requeued. Needs Slurm 26.05; 422 with an earlier one.
        """
        options = await body(request, RequeueOptions) if request.can_read_body else RequeueOptions()
        return await self._change(request, caller, ref, Requeue(hold=options.hold))

    @api.post("jobs_signal", f"{JOB}/signal", parameters=(IDEMPOTENCY_KEY,), body=SignalToSend)
    async def signal(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Sends a signal to the processes of a running job; 409 for one that does not run."""
        given = await body(request, SignalToSend)
        change = SendSignal(signal=given.signal, batch_only=given.batch_only)
        return await self._change(request, caller, ref, change)

    @api.patch("jobs_update", JOB, parameters=(IDEMPOTENCY_KEY,), body=RequestedChanges)
    async def update(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Changes a job's description. Fields that are not given, or null, stay as they are.

        `time_limit` is in minutes, `begin_time` in seconds since 1970. What Slurm refuses is 422, and 409 where only
        the job's state does not allow it. 422 also for a QOS that the user may not use, and for more than any
        worker has. 403 where a quota has no room for what the job may then cost, and for what Slurm lets only an
        operator do: once a job has started, its owner can lower its time limit, and only an admin can raise it.
        """
        changes = await body(request, RequestedChanges, _HINTS)
        return await self._change(request, caller, ref, changes.update)

    async def _change(
        self, request: web.Request, caller: Caller, ref: ClusterRef, change: Action
    ) -> web.StreamResponse:
        jobs, key = selected_jobs(request), idempotency_key(request)
        act = (
            partial(self._updates.update, ref, caller.viewer, jobs, change)
            if isinstance(change, Update)
            else partial(self._slurm.change, ref, caller.viewer, jobs, change)
        )
        answer = no_content()
        if key is None:
            await act()
        elif await self._once.run(
            ScopedKey(ref, caller.member.id, key),
            f"{jobs} {_canonical(change)}",
            act,
        ):
            answer.headers[REPLAYED] = "true"
        return answer


def _canonical(change: Action) -> str:
    """The same text for every spelling of the same change, and as earlier releases write it if they can."""
    as_before = isinstance(change, Update) and change.further == FurtherChanges()
    return change.model_dump_json(exclude={"further"} if as_before else None)
