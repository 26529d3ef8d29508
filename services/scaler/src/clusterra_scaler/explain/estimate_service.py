"""Serves estimates of jobs for a cluster that this replica decides for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import nats.errors
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.estimate import Estimate, EstimateJob
from clusterra_contracts.rpc.reply import RpcError
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_scaler.decisions.lanes import DecisionLanes
from clusterra_scaler.explain.estimate import EstimateInputs, estimate
from clusterra_scaler.explain.service import QUEUE
from clusterra_scaler.planner.time_limit import DecisionOverdue

MAX_WAITING = 8
"""How many estimates of a cluster wait for their turn. Each takes as long as one or two decisions."""


class EstimateService:
    """Estimates jobs from the inputs of the last decision, one at a time, and never beside a decision."""

    def __init__(self, ref: ClusterRef, lanes: DecisionLanes, deciding: asyncio.Lock) -> None:
        self._ref = ref
        self._lanes = lanes
        self._deciding = deciding
        self._estimating = asyncio.Lock()
        """Held by the one estimate that waits for `deciding`: so no decision waits for more than one."""
        self._inputs: EstimateInputs | None = None
        self._waiting = 0

    def on_decision(self, inputs: EstimateInputs) -> None:
        """Estimate from these inputs from now on. They are those of a decision that had a plan."""
        self._inputs = inputs

    @asynccontextmanager
    async def serving(self, client: Client) -> AsyncIterator[None]:
        """Answer requests within the block. Outside of it a request finds no responder."""
        subject = subjects.scaler(self._ref, "estimate")
        subscription = await rpc.serve(client, subject, EstimateJob, self.answer, queue=QUEUE)
        try:
            yield
        finally:
            # Without a connection no further request arrives anyway.
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def answer(self, _subject: Subject, request: EstimateJob) -> Estimate:
        """Estimate a job, after those that were asked for before. Raises RpcFailed."""
        if self._waiting >= MAX_WAITING:
            raise _unavailable("too many estimates of this cluster are asked for")
        self._waiting += 1
        try:
            async with self._estimating, self._deciding:
                await self._lanes.turns.take()
                inputs = self._inputs
                if inputs is None:
                    raise _unavailable("the scaler has not read the cluster's queue yet")
                # An array of many nodes takes long also in an empty cluster.
                queue = inputs.observation.snapshot
                queue = queue.model_copy(update={"pending": (*(queue.pending or ()), request.job)})
                return await self._lanes.run(queue, lambda: estimate(request, inputs, now()))
        except DecisionOverdue:
            raise _unavailable("the scaler needs too long to plan this job") from None
        finally:
            self._waiting -= 1


def _unavailable(detail: str) -> RpcFailed:
    return RpcFailed(RpcError(kind="unavailable", detail=detail, hint="try again in a moment"))
