"""Requests to one cluster's Slurm, sent beside the decisions: drain, undrain, set down, set Extra, delete a record."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Down, Drain, Drained, SetExtra, Undrain
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed, call
from prometheus_client import Counter

from clusterra_scaler.planner.scale_down.drain import Action

log = structlog.get_logger(__name__)

MAX_CONCURRENT = 8
"""Maximum number of requests in flight per cluster."""
RETRY_SECONDS = 1.0
"""The first pause before a request about a node that failed may be sent again. It doubles with each further failure."""
LONGEST_RETRY_SECONDS = 10.0
"""The longest such pause. So a Slurm or a proxy that is too busy to answer gets fewer requests, not more."""

REQUESTS = Counter("clusterra_scaler_requests_total", "Requests to Slurm, by outcome", ("operation", "outcome"))

_OPERATIONS = {Drain: "drain", Undrain: "undrain", Down: "down", DeleteNode: "delete-node", SetExtra: "set-extra"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a request. A `lost` request has no answer and may still be carried out."""

    action: Action
    outcome: Literal["done", "refused", "lost"]
    accepted_at: datetime | None = None
    """For a drain: the moment from which the node takes no new job."""


@dataclass(slots=True)
class _Failed:
    """That the last requests of one kind about a node failed."""

    backoff: Backoff
    retry_at: float
    """On the monotonic clock."""


class SlurmRequests:
    """Sends at most one request about a node at a time. It retries none: a later decision repeats a failed request."""

    def __init__(
        self, client: Client, ref: ClusterRef, *, may_send: Callable[[], bool], on_answer: Callable[[], None]
    ) -> None:
        """`may_send` tells whether requests are allowed at this moment. `on_answer` is called on each answer that may
        change a decision. The deletion of a node record alone does not: the next snapshot shows it.
        """
        self._client = client
        self._ref = ref
        self._may_send = may_send
        self._on_answer = on_answer
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[tuple[str, type[Action]], _Failed] = {}
        self._answers: list[Answer] = []

    def send(self, actions: Iterable[Action]) -> None:
        """Send these requests, except about nodes with one in flight, or where one of the same kind failed lately."""
        present = time.monotonic()
        self._failed = {
            (node, kind): failed
            for (node, kind), failed in self._failed.items()
            if node in self._in_flight or present < failed.retry_at + LONGEST_RETRY_SECONDS
        }
        for action in actions:
            failed = self._failed.get((action.node, type(action)))
            if action.node not in self._in_flight and (failed is None or failed.retry_at <= present):
                self._in_flight[action.node] = asyncio.create_task(self._send(action))

    def take_answers(self) -> list[Answer]:
        """Return the answers since the last call."""
        answers, self._answers = self._answers, []
        return answers

    async def close(self) -> None:
        """Stop waiting for answers."""
        tasks = tuple(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, action: Action) -> None:
        try:
            async with self._slots:
                if self._may_send():
                    self._finish(await self._call(action))
        finally:
            del self._in_flight[action.node]

    async def _call(self, action: Action) -> Answer:
        subject = subjects.slurm(self._ref, _OPERATIONS[type(action)])
        try:
            if isinstance(action, Drain):
                drained = await call(self._client, subject, action, Drained)
                return Answer(action, "done", drained.accepted_at)
            await call(self._client, subject, action, Done)
        except RpcFailed as failed:
            log.warning(
                "slurm_request_failed", operation=_OPERATIONS[type(action)], node=action.node, reason=str(failed)
            )
            return Answer(action, "lost" if failed.error.kind == "unavailable" else "refused")
        return Answer(action, "done")

    def _finish(self, answer: Answer) -> None:
        kind = type(answer.action)
        operation, key = _OPERATIONS[kind], (answer.action.node, kind)
        REQUESTS.labels(operation, answer.outcome).inc()
        if answer.outcome == "done":
            log.info("slurm_request_done", operation=operation, node=answer.action.node)
            self._failed.pop(key, None)
        else:
            failed = self._failed.setdefault(key, _Failed(Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS), 0.0))
            failed.retry_at = time.monotonic() + failed.backoff.next_seconds()
        self._answers.append(answer)
        if answer.outcome != "done" or kind is not DeleteNode:
            self._on_answer()
