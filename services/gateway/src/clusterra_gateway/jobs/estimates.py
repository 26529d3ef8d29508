"""What a job would cost, on which workers, and when it would start: `POST /v1/clusters/{cluster_id}/jobs/estimate`."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.estimate import Estimate, EstimatedWorkers, Prepared, Wait
from clusterra_contracts.rpc.why import Cause

from clusterra_gateway.bus.requests import ScalerRequests, SlurmRequests
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.jobs.alternatives import ShapeAlternative
from clusterra_gateway.submission.models import AnyScript, ScriptSubmission, prepare_message
from clusterra_gateway.submission.reading import read_submission

ESTIMATE = f"{CLUSTER}/jobs/estimate"

_EXACT = Decimal("0.000001")
_HOUR_SECONDS = 3600


api = cluster_routes(changes=Needs("jobs:write", "member"))


class EstimatedCost(ResponseBody):
    """What a job would cost at the prices of the cluster's catalogue: its share of its workers.

    `per_hour` and `at_most` are of the job with all its components, or of one task of an array; `total_at_most` is of
    all tasks. Both maxima are for the whole time limit, and null without one.
    """

    currency: Literal["USD"] = "USD"
    per_hour: Decimal
    at_most: Decimal | None
    total_at_most: Decimal | None

    @classmethod
    def of(cls, estimate: Estimate) -> "EstimatedCost | None":
        """The cost of an estimated job; None where it is unknown."""
        if estimate.usd_per_hour is None:
            return None
        per_hour = Decimal(str(estimate.usd_per_hour))
        limit = None if estimate.limit_seconds is None else Decimal(str(estimate.limit_seconds))
        at_most = None if limit is None else per_hour * limit / _HOUR_SECONDS
        return cls(
            per_hour=per_hour.quantize(_EXACT),
            at_most=None if at_most is None else at_most.quantize(_EXACT),
            total_at_most=None if at_most is None else (at_most * estimate.tasks).quantize(_EXACT),
        )


class JobEstimate(ResponseBody):
    """What the planner would do for a job that is submitted now, at `as_of`. Nothing is reserved.

    `wait` tells what the job, or the last of its tasks that may run at once, would wait for, and `text` tells it to
    people. `workers` are those that it would use. `expected_start` is that of the job or of its first task,
    `expected_last_start` that of its last task; null where nobody knows. `cost` is null where no worker would do.
    `alternatives` are the shapes of the cluster, compared for the job or one task, the nearest first, 20 at most.
    `shadow` means that the scaler buys nothing. `warnings` are those that a submit would answer.
    """

    wait: Wait
    cause: Cause | None
    text: str
    workers: tuple[EstimatedWorkers, ...]
    nodes: int
    tasks: int
    expected_start: datetime | None
    expected_last_start: datetime | None
    time_limit_seconds: float | None
    cost: EstimatedCost | None
    alternatives: tuple[ShapeAlternative, ...] = ()
    shadow: bool
    warnings: tuple[str, ...]
    as_of: datetime

    @classmethod
    def of(cls, prepared: Prepared, estimate: Estimate) -> "JobEstimate":
        """What the caller sees of an estimate."""
        return cls(
            wait=estimate.wait,
            cause=estimate.cause,
            text=estimate.text,
            workers=estimate.workers,
            nodes=estimate.nodes,
            tasks=estimate.tasks,
            expected_start=estimate.expected_start,
            expected_last_start=estimate.expected_last_start,
            time_limit_seconds=estimate.limit_seconds,
            cost=EstimatedCost.of(estimate),
            alternatives=tuple(map(ShapeAlternative.of, estimate.alternatives)),
            shadow=estimate.shadow,
            warnings=prepared.warnings,
            as_of=estimate.as_of,
        )


class Estimates:
    """Asks the proxy to check and translate a submission, and the scaler to plan with it."""

    def __init__(self, slurm: SlurmRequests, scaler: ScalerRequests) -> None:
        self._slurm = slurm
        self._scaler = scaler

    async def estimate(self, caller: Caller, ref: ClusterRef, submission: AnyScript) -> JobEstimate:
        """Estimate a job of the caller. Raises RpcFailed, as a submit would for what it refuses."""
        prepared = await self._slurm.prepare(ref, prepare_message(caller.slurm_user, submission, caller.member.email))
        return JobEstimate.of(prepared, await self._scaler.estimate(ref, prepared))

    @api.post("jobs_estimate", ESTIMATE, body=ScriptSubmission, result=JobEstimate)
    async def serve(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Estimates a job without submitting it: what it would cost, on which workers, and when it would start.

        The body is that of a submit. It is checked as a submit checks it, apart from what Slurm alone knows, such as
        the limits of an account. The job counts as the last of the queue. The components of a heterogeneous job are
        estimated together: they start together.
        """
        return json_response(await self.estimate(caller, ref, await read_submission(request)))
