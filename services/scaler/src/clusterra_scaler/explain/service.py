"""Serves the explanation of a job for a cluster that this replica decides for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import nats.errors
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.why import ExplainJob, Explanation
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_scaler.explain.alternatives import Offered
from clusterra_scaler.explain.explanation import ExplanationInputs, explanation
from clusterra_scaler.explain.purchases import PurchaseHistory
from clusterra_scaler.planner.decide import Decision
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Observation

QUEUE = "scaler"
"""The NATS queue group. During a takeover two replicas may serve the same cluster; one of them answers a request."""


class ExplanationService:
    """Explains jobs from the last decision."""

    def __init__(self, ref: ClusterRef) -> None:
        self._ref = ref
        self._inputs: ExplanationInputs | None = None
        self._purchases = PurchaseHistory()

    def on_decision(
        self, observation: Observation, decision: Decision, run_history: RunHistory, *, shadow: bool
    ) -> None:
        """Explain from this decision from now on. If it has no plan, the decision before it stays."""
        offered = Offered.of(decision, observation.binding, run_history)
        if decision.plan is None or offered is None:
            if self._inputs is not None and self._inputs.unreadable_since is None:
                self._inputs = replace(self._inputs, unreadable_since=observation.snapshot.taken_at)
            return
        if not shadow:
            self._purchases = self._purchases.after(decision, observation.snapshot)
        latency = decision.observation_history.registrations.latency
        self._inputs = ExplanationInputs(
            observation=observation,
            state=decision.state,
            plan=decision.plan,
            offered=offered,
            latency=latency,
            purchases=self._purchases,
            shadow=shadow,
        )

    @asynccontextmanager
    async def serving(self, client: Client) -> AsyncIterator[None]:
        """Answer requests within the block. Outside of it a request finds no responder."""
        subject = subjects.scaler(self._ref, "why")
        subscription = await rpc.serve(client, subject, ExplainJob, self._explain, queue=QUEUE)
        try:
            yield
        finally:
            # Without a connection no further request arrives anyway.
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def _explain(self, _subject: Subject, request: ExplainJob) -> Explanation:
        if self._inputs is None:
            detail = "the scaler has not read the cluster's queue yet"
            raise RpcFailed(RpcError(kind="unavailable", detail=detail, hint="try again in a moment"))
        found = explanation(request.job_id, request.viewer, self._inputs, now())
        if found is None:
            raise RpcFailed(
                RpcError(
                    kind="not_found",
                    detail=f"no job {request.job_id} is pending or running",
                    hint="try again in a moment if you have just submitted it; a job that has ended has no explanation",
                )
            )
        return found
