"""Stands in for the scaler of a cluster: why a job waits, and what a new one would wait for."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from answering import rpc_failure
from clusterra_contracts.alternatives import Alternative
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.estimate import Estimate, EstimatedWorkers, EstimateJob
from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from clusterra_contracts.rpc.simulate import (
    SimulatedDecision,
    SimulatedShape,
    SimulatedWait,
    SimulatePolicy,
    Simulation,
)
from clusterra_contracts.rpc.why import ExplainJob, Explanation, JobPlace
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import RpcFailed, serve
from nats.aio.subscription import Subscription
from proxy_stand_in import ProxyStandIn

ALTERNATIVES = (
    Alternative(
        shape="compute-xs",
        usd_per_hour=0.0725,
        verdict="chosen",
        job_usd_per_hour=0.0725 / 2,
        expected_usd=0.1 + 0.2,
        text="It is planned on a worker of this shape.",
    ),
    Alternative(shape="memory-xs", usd_per_hour=0.1071, verdict="too_small", lacks=("cpus",), text="Too small."),
)


@dataclass
class ScalerStandIn:
    """Explains the jobs of a proxy."""

    proxy: ProxyStandIn
    explained: list[ExplainJob] = field(default_factory=list)
    simulated: list[SimulatePolicy] = field(default_factory=list)
    forgotten: set[int] = field(default_factory=set)
    """The decisions whose inputs it does not have any more."""
    knows_past: bool = True
    """Whether it decides from the inputs of earlier decisions; a release before does not."""
    told: dict[str, Any] = field(default_factory=dict)
    """Values of explanations in place of those of the stand-in."""
    unexplained: ErrorKind | None = None
    """Answers every `why` with this error."""

    def served(self, client: Client, ref: ClusterRef) -> tuple[Awaitable[Subscription], ...]:
        scaler = f"scaler.{ref.tenant}.{ref.cluster}"
        return (
            serve(client, f"{scaler}.why", ExplainJob, self._why),
            serve(client, f"{scaler}.estimate", EstimateJob, self._estimate),
            serve(client, f"{scaler}.simulate", SimulatePolicy, self._simulate),
        )

    async def _why(self, _subject: Subject, request: ExplainJob) -> Explanation:
        self.explained.append(request)
        if self.unexplained is not None:
            raise rpc_failure(self.unexplained, "the scaler cannot explain it")
        job = self.proxy.visible(request.viewer, request.job_id)
        explanation = Explanation(
            job_id=job.job_id,
            state="pending",
            reason="Resources",
            cause="nodes",
            text="It waits for a worker of the shape compute-xs, which is ordered and not started yet.",
            places=(JobPlace(kind="ordered", shape="compute-xs"),),
            usd_per_hour=0.05,
            alternatives=ALTERNATIVES,
            generation=7,
            snapshot_generation=9,
            as_of=job.submitted_at,
        )
        return explanation.model_copy(update=self.told)

    async def _estimate(self, _subject: Subject, request: EstimateJob) -> Estimate:
        return Estimate(
            wait="boot",
            text="Its tasks would wait until workers of the shape compute-xs have started.",
            workers=(EstimatedWorkers(kind="new", shape="compute-xs", count=5),),
            expected_start=request.job.first_submitted_at,
            usd_per_hour=0.04,
            alternatives=ALTERNATIVES,
            limit_seconds=5400,
            tasks=request.tasks,
            snapshot_generation=9,
            as_of=request.job.first_submitted_at,
        )

    async def _simulate(self, _subject: Subject, request: SimulatePolicy) -> Simulation:
        self.simulated.append(request)
        if request.generation in self.forgotten:
            raise RpcFailed(
                RpcError(kind="not_found", detail="it is gone", hint="simulate with the current queue instead")
            )
        bought = SimulatedShape(shape="compute-xs", workers=3, new=1, usd_per_hour=0.1 + 0.2)
        return Simulation(
            present=SimulatedDecision(shapes=(bought,), usd_per_hour=0.1 + 0.2, placed=4),
            changed=SimulatedDecision(
                placed=1, waiting=3, waits=(SimulatedWait(count=3, reason="the limit", job_ids=("7", "8")),)
            ),
            snapshot_generation=9,
            as_of=now(),
            generation=request.generation if self.knows_past else None,
        )
