"""Serves estimates of jobs, and simulations of policies, for a cluster that this replica decides for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import nats.errors
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.estimate import Estimate, EstimateJob
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.simulate import SimulatePolicy, Simulation
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_scaler.decisions.lanes import DecisionLanes
from clusterra_scaler.decisions.log import DecisionLog
from clusterra_scaler.explain.estimate import EstimateInputs, estimate
from clusterra_scaler.explain.service import QUEUE
from clusterra_scaler.explain.simulation import simulate, simulate_past
from clusterra_scaler.planner.time_limit import DecisionOverdue

MAX_WAITING = 8
"""How many estimates and simulations of a cluster wait for their turn. Each takes as long as one or two decisions."""


class EstimateService:
    """Estimates jobs and simulates policies from the inputs of the last decision, or of one in the decision log.

    It does one at a time, and none beside a decision.
    """

    def __init__(
        self,
        ref: ClusterRef,
        lanes: DecisionLanes,
        deciding: asyncio.Lock,
        decision_log: DecisionLog | None = None,
        bound_at: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self._ref = ref
        self._decision_log = decision_log
        self._bound_at = bound_at
        self._lanes = lanes
        self._deciding = deciding
        self._estimating = asyncio.Lock()
        """Held by the one of them that waits for `deciding`: so no decision waits for more than one."""
        self._inputs: EstimateInputs | None = None
        self._waiting = 0

    def on_decision(self, inputs: EstimateInputs) -> None:
        """Estimate from these inputs from now on. They are those of a decision that had a plan."""
        self._inputs = inputs

    @asynccontextmanager
    async def serving(self, client: Client) -> AsyncIterator[None]:
        """Answer requests within the block. Outside of it a request finds no responder."""
        served = (
            await rpc.serve(client, subjects.scaler(self._ref, "estimate"), EstimateJob, self.answer, queue=QUEUE),
            await rpc.serve(client, subjects.scaler(self._ref, "simulate"), SimulatePolicy, self.simulate, queue=QUEUE),
        )
        try:
            yield
        finally:
            for subscription in served:
                # Without a connection no further request arrives anyway.
                with suppress(nats.errors.Error):
                    await subscription.unsubscribe()

    async def answer(self, _subject: Subject, request: EstimateJob) -> Estimate:
        """Estimate a job, after those that were asked for before. Raises RpcFailed."""
        # An array of many nodes takes long also in an empty cluster.
        return await self._in_turn((request.job,), lambda inputs: estimate(request, inputs, now()))

    async def simulate(self, _subject: Subject, request: SimulatePolicy) -> Simulation:
        """Simulate a policy, after what was asked for before. Raises RpcFailed."""
        if request.generation is not None:
            return await self._simulate_past(request, request.generation)
        return await self._in_turn((), lambda inputs: simulate(request, inputs))

    async def _simulate_past(self, request: SimulatePolicy, generation: int) -> Simulation:
        """Simulate a policy from the inputs of an earlier decision, which are read before it is its turn."""
        if self._decision_log is None:
            raise _not_found("the scaler does not log its decisions")
        async with self._counted():
            record = await self._decision_log.find(self._ref, generation)
            since = self._bound_at()
            # An earlier decision was for another cluster, which had the same name, or for another Slurm.
            if record is None or (since is not None and record.given.observation.now < since):
                raise _not_found(f"the scaler does not have the inputs of decision {generation} any more")
            async with self._turn():
                queue = record.given.observation.snapshot
                return await self._lanes.run(queue, lambda: simulate_past(request, record))

    async def _in_turn[T](self, more: tuple[PendingJobs, ...], compute: Callable[[EstimateInputs], T]) -> T:
        """What `compute` returns, which decides with `more` jobs than wait. Raises RpcFailed."""
        async with self._counted(), self._turn():
            inputs = self._inputs
            if inputs is None:
                raise _unavailable("the scaler has not read the cluster's queue yet")
            queue = inputs.observation.snapshot
            queue = queue.model_copy(update={"pending": (*(queue.pending or ()), *more)})
            return await self._lanes.run(queue, lambda: compute(inputs))

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        """Count the request among those that wait or run. Raises RpcFailed for too many, or one that takes too long."""
        if self._waiting >= MAX_WAITING:
            raise _unavailable("too many estimates of this cluster are asked for")
        self._waiting += 1
        try:
            yield
        except DecisionOverdue:
            raise _unavailable("the scaler needs too long to plan this") from None
        finally:
            self._waiting -= 1

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Hold the cluster's decision lock."""
        async with self._estimating, self._deciding:
            await self._lanes.turns.take()
            yield


def _unavailable(detail: str) -> RpcFailed:
    return RpcFailed(RpcError(kind="unavailable", detail=detail, hint="try again in a moment"))


def _not_found(detail: str) -> RpcFailed:
    return RpcFailed(RpcError(kind="not_found", detail=detail, hint="simulate with the current queue instead"))
