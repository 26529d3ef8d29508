"""Submits, cancels and changes of clients made for slurmrestd, through the same rules as those of our own API."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Literal, get_args

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm_jobs import (
    CancelTasks,
    Hold,
    JobChanges,
    JobSelection,
    Release,
    Requeue,
    SendSignal,
    Signal,
    Update,
)
from clusterra_runtime.nats.rpc import RpcFailed
from pydantic import ConfigDict, Field, RootModel, StringConstraints, TypeAdapter, ValidationError

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.requests.parameters import Body, Query, body, checked, query, selected_jobs
from clusterra_gateway.idempotency.key import idempotency_key
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.jobs.changes import RequestedChanges
from clusterra_gateway.money.quotas.admission import PricedUpdates
from clusterra_gateway.slurmrestd.answers import UNSET, answer
from clusterra_gateway.slurmrestd.submission import (
    CHANGE_BOUNDS,
    as_taken,
    left_out,
    number,
    read_rest_submission,
    refusal,
    set_fields,
)
from clusterra_gateway.submission.reading import LEFT_OUT, UNCHANGEABLE
from clusterra_gateway.submits.desk import SubmitDesk

MAX_KILLED = 100
"""The most jobs of one request: they are cancelled one after another."""
_SIGNALS = {"1": "HUP", "2": "INT", "3": "QUIT", "9": "KILL", "10": "USR1", "12": "USR2", "15": "TERM", "18": "CONT"}
_SIGNALS |= {"19": "STOP", "20": "TSTP", "14": "ALRM", "21": "TTIN", "22": "TTOU", "23": "URG"}
_SIGNAL: TypeAdapter[Signal] = TypeAdapter(Signal)
_NAMES = "|".join((*get_args(Signal), *_SIGNALS))
SignalText = Annotated[str, StringConstraints(pattern=rf"^(SIG)?({_NAMES})$")]
"""A signal as clients of Slurm name it: `TERM`, `SIGTERM` or `15`."""
_SELECTION: TypeAdapter[str] = TypeAdapter(JobSelection)


class KillQuery(Query):
    """How a job is ended: by a signal, which KILL is without one, and to whom the signal goes."""

    signal: SignalText | None = None
    flags: Annotated[str, StringConstraints(pattern=r"^(BATCH_JOB|FULL_JOB)(,(BATCH_JOB|FULL_JOB))*$")] | None = None


class KillJobs(Body):
    """The jobs to cancel or signal. slurmrestd's filters are not accepted: our own API cancels by filter."""

    jobs: tuple[str, ...] = Field(min_length=1, max_length=MAX_KILLED)
    signal: SignalText | None = None
    flags: tuple[Literal["BATCH_JOB", "FULL_JOB"], ...] = ()


class RequeueJobs(Body):
    """The jobs to queue again."""

    jobs: tuple[str, ...] = Field(min_length=1, max_length=MAX_KILLED)
    flags: tuple[Literal["Hold"], ...] = ()


class RestJobChanges(RequestedChanges):
    """What of a job can be changed. Fields that are not set are left as they are, whatever their names."""

    model_config = ConfigDict(json_schema_extra=as_taken)

    hold: bool | None = None


class _Given(RootModel[dict[str, Any]]):
    """A job's description as clients send it, with all fields that they know."""


class Changes:
    """The handlers."""

    def __init__(self, slurm: SlurmRequests, updates: PricedUpdates, desk: SubmitDesk) -> None:
        self._slurm = slurm
        self._updates = updates
        self._desk = desk

    async def submit(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Submits a job as the caller, in slurmrestd's form. The rules are those of `POST .../jobs/submit`."""
        submission, warnings = await read_rest_submission(request)
        submitted = await self._desk.submit(caller, ref, submission, idempotency_key(request), submission.digest())
        fields = {"job_id": int(submitted.job_id), "step_id": "batch", "job_submit_user_msg": ""}
        return answer(request, caller, ref, fields, (*warnings, *submitted.warnings))

    async def kill(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Cancels a job, or sends it a signal. Unlike slurmrestd, it answers 404 for a job that does not exist."""
        given = query(request, KillQuery)
        flags = tuple(flag for flag in (given.flags or "").split(",") if flag)
        await self._kill(caller, ref, selected_jobs(request), *_signal(given.signal, flags))
        return answer(request, caller, ref, {"status": []})

    async def kill_jobs(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Cancels jobs, or sends them a signal. `status` names those for which that failed."""
        given = await body(request, KillJobs)
        signal, batch_only = _signal(given.signal, given.flags)

        async def kill(jobs: str) -> None:
            await self._kill(caller, ref, jobs, signal, batch_only)

        status = [failure async for failure in _each(given.jobs, kill)]
        return answer(request, caller, ref, {"status": [_kill_status(*each) for each in status]})

    async def requeue(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Queues jobs again. `status` names those for which that failed. Needs Slurm 26.05."""
        given = await body(request, RequeueJobs)

        async def requeue(jobs: str) -> None:
            await self._slurm.change(ref, caller.viewer, jobs, Requeue(hold="Hold" in given.flags))

        status = [failure async for failure in _each(given.jobs, requeue)]
        return answer(request, caller, ref, {"status": [[_requeue_status(*each)] for each in status]})

    async def update(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Changes a job: what `PATCH .../jobs/{job_id}` changes, or `hold`."""
        jobs = selected_jobs(request)
        sent = set_fields((await body(request, _Given, bounds=CHANGE_BOUNDS)).root, RestJobChanges.model_fields)
        sent.pop("job_id", None)
        if refused := sorted(sent.keys() - LEFT_OUT.keys() - RestJobChanges.model_fields.keys()):
            raise refusal(refused, "#", UNCHANGEABLE)
        wanted = checked(RestJobChanges, {name: number(value) for name, value in sent.items() if name not in LEFT_OUT})
        if wanted.update != Update(changes=JobChanges()):
            await self._updates.update(ref, caller.viewer, jobs, wanted.update)
        if wanted.hold is not None:
            await self._slurm.change(ref, caller.viewer, jobs, Hold() if wanted.hold else Release())
        return answer(request, caller, ref, {"results": []}, left_out(sent))

    async def _kill(self, caller: Caller, ref: ClusterRef, jobs: str, signal: Signal | None, batch_only: bool) -> None:
        if signal is not None:
            change = SendSignal(signal=signal, batch_only=batch_only)
            await self._slurm.change(ref, caller.viewer, jobs, change)
        elif "[" in jobs:
            await self._slurm.change(ref, caller.viewer, jobs, CancelTasks())
        else:
            await self._slurm.cancel(ref, caller.viewer, jobs)


async def _each(jobs: tuple[str, ...], act: Callable[[str], Awaitable[None]]) -> AsyncIterator[tuple[str, int, str]]:
    """Act on each selection, and yield those that failed: the selection, Slurm's number, and why."""
    for each in jobs:
        try:
            await act(_SELECTION.validate_python(each))
        except ValidationError:
            yield each[:100], 0, "this is no job id"
        except RpcFailed as failed:
            yield each, failed.error.code or 0, failed.error.detail


def _signal(given: str | None, flags: tuple[str, ...]) -> tuple[Signal | None, bool]:
    """Return the signal, None for KILL, and whether only the batch script gets it."""
    name = (given or "KILL").removeprefix("SIG")
    signal = _SIGNAL.validate_python(_SIGNALS.get(name, name))
    return (None if signal == "KILL" and "BATCH_JOB" not in flags else signal), "BATCH_JOB" in flags


def _kill_status(jobs: str, code: int, why: str) -> dict[str, Any]:
    job = jobs.partition("_")[0]
    job_id = UNSET | ({"set": True, "number": int(job)} if job.isdecimal() and len(job) < 11 else {})
    error = {"string": why, "code": code, "message": why}
    return {"error": error, "step_id": jobs, "job_id": job_id, "federation": {"sibling": ""}}


def _requeue_status(jobs: str, code: int, why: str) -> dict[str, Any]:
    return {"job_id": 0, "step_id": jobs, "error": why, "error_code": code, "why": why}
