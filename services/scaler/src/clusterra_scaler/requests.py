"""What Slurm is asked to do for one cluster, beside the decisions: drain, undrain, set down, delete a node's record."""

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
from clusterra_contracts.rpc.slurm import DeleteNode, Down, Drain, Drained, SetExtra, Undrain
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed, call
from prometheus_client import Counter

from clusterra_scaler.planner.scale_down.drain import Action

log = structlog.get_logger(__name__)

AT_ONCE = 8
RETRY_SECONDS = 1.0
"""Before a node is asked for again after a request about it failed."""

REQUESTS = Counter("clusterra_scaler_requests_total", "Requests to Slurm, by outcome", ("operation", "outcome"))

_OPERATIONS = {Drain: "drain", Undrain: "undrain", Down: "down", DeleteNode: "delete-node", SetExtra: "set-extra"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request. After `lost` it may still be carried out."""

    action: Action
    outcome: Literal["done", "refused", "lost"]
    accepted_at: datetime | None = None
    """Of a drain: from when on the node takes no job."""


class Requests:
    """At most one request about a node at a time. A request that fails is not repeated: it will be decided again."""

    def __init__(
        self, client: Client, ref: ClusterRef, *, allowed: Callable[[], bool], answered: Callable[[], None]
    ) -> None:
        """`allowed` tells whether the lease is held at this moment; `answered` is called when there are answers."""
        self._client = client
        self._ref = ref
        self._allowed = allowed
        self._answered = answered
        self._places = asyncio.Semaphore(AT_ONCE)
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}
        self._answers: list[Answer] = []

    def ask(self, actions: Iterable[Action]) -> None:
        """Ask for what is not being asked for already, and has not just failed."""
        present = time.monotonic()
        self._not_before = {node: moment for node, moment in self._not_before.items() if moment > present}
        for action in actions:
            if action.node not in self._asking and action.node not in self._not_before:
                self._asking[action.node] = asyncio.create_task(self._ask(action))

    def answers(self) -> list[Answer]:
        """The answers since the last call."""
        answers, self._answers = self._answers, []
        return answers

    async def close(self) -> None:
        """Wait for no answer any more."""
        tasks = tuple(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, action: Action) -> None:
        try:
            async with self._places:
                if self._allowed():
                    self._take(await self._answer(action))
        finally:
            del self._asking[action.node]

    async def _answer(self, action: Action) -> Answer:
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

    def _take(self, answer: Answer) -> None:
        operation = _OPERATIONS[type(answer.action)]
        REQUESTS.labels(operation, answer.outcome).inc()
        if answer.outcome == "done":
            log.info("slurm_request_done", operation=operation, node=answer.action.node)
        else:
            self._not_before[answer.action.node] = time.monotonic() + RETRY_SECONDS
        self._answers.append(answer)
        self._answered()
