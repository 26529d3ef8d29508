"""Answering why a job waits, for a cluster that is decided for here."""

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

from clusterra_scaler.explain.explanation import Grounds, explanation
from clusterra_scaler.explain.purchases import Purchases
from clusterra_scaler.planner.decide import Decision
from clusterra_scaler.planner.observed.observation import Observation

QUEUE = "scaler"
"""Around a takeover two may serve the same cluster: one of them answers."""


class Explainer:
    """Keeps what the last decision was made from."""

    def __init__(self, ref: ClusterRef) -> None:
        self._ref = ref
        self._grounds: Grounds | None = None
        self._purchases = Purchases()

    def decided(self, observation: Observation, decision: Decision, *, shadow: bool) -> None:
        """Explain from this decision from now on; where a list could not be read, from the one before."""
        if decision.plan is None:
            if self._grounds is not None and self._grounds.unreadable_since is None:
                self._grounds = replace(self._grounds, unreadable_since=observation.snapshot.taken_at)
            return
        if not shadow:
            self._purchases = self._purchases.after(decision, observation.snapshot)
        latency = decision.observation_history.registrations.latency
        self._grounds = Grounds(observation, decision.state, decision.plan, latency, self._purchases, shadow)

    @asynccontextmanager
    async def serving(self, client: Client) -> AsyncIterator[None]:
        """Answer within the block; outside of it a request finds nobody."""
        subject = subjects.scaler(self._ref, "why")
        subscription = await rpc.serve(client, subject, ExplainJob, self._explain, queue=QUEUE)
        try:
            yield
        finally:
            # Without a connection nothing more comes in anyway.
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def _explain(self, _subject: Subject, request: ExplainJob) -> Explanation:
        if self._grounds is None:
            detail = "nothing is known of the cluster's queue yet"
            raise RpcFailed(RpcError(kind="unavailable", detail=detail, hint="try again in a moment"))
        found = explanation(request.job_id, request.viewer, self._grounds, now())
        if found is None:
            raise RpcFailed(
                RpcError(
                    kind="not_found",
                    detail=f"no job {request.job_id} waits or runs",
                    hint="one that was submitted just now is known in a moment; one that is over needs no explanation",
                )
            )
        return found
