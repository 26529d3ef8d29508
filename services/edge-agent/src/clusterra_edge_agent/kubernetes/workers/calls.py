"""Makes the calls of a plan for one Deployment, and applies their answers before the watch delivers them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.kubernetes.client.api import Api, Collection
from clusterra_edge_agent.kubernetes.client.errors import NotFound
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.client.resources import Deployment, Pod
from clusterra_edge_agent.kubernetes.workers.replicas import Plan
from clusterra_edge_agent.kubernetes.workers.seen_marks import SeenMarks

log = structlog.get_logger(__name__)

MAX_CONCURRENT_CALLS = 16

type RemoveIf = Callable[[Callable[[], Awaitable[None]]], Coroutine[Any, Any, None]]
"""Makes a call that removes victims, if that is still right."""


class WorkerCalls:
    """The calls of all shapes; a bounded number runs at a time."""

    def __init__(
        self,
        api: Api,
        owners: Collection[Deployment],
        deployments: Reflector[Deployment],
        pods: Reflector[Pod],
        seen_marks: SeenMarks,
    ) -> None:
        self._api = api
        self._owners = owners
        self._deployments = deployments
        self._pods = pods
        self._seen_marks = seen_marks
        self._calls = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def execute(
        self, step: Plan, deployment: Deployment, pods: Mapping[WorkerName, Pod], remove_if: RemoveIf
    ) -> None:
        """Execute a step with the Deployment's `pods`. The next plan sees what was done until an error.

        Raises ApiError, and what `remove_if` raises.
        """
        shape = deployment.shape or ""
        calls = [partial(self._mark, shape, pods[name], cost) for name, cost in step.costs.items()]
        if step.lower_to is not None:
            version = deployment.metadata.resource_version
            lower = partial(self._scale, deployment, step.lower_to, version)
            calls.append(partial(remove_if, lower))
        await self._concurrently(calls)
        if step.raise_to is not None:
            await self._scale(deployment, step.raise_to)
        await self._concurrently(
            partial(remove_if, partial(self.delete, pods[name])) for name in step.deletions if name in pods
        )
        if step.deletions or step.raise_to is not None or step.lower_to is not None:
            log.info(
                "deployment_changed",
                deployment=deployment.name,
                replicas_before=deployment.spec.replicas,
                replicas=step.lower_to if step.lower_to is not None else step.raise_to,
                deletions=step.deletions,
            )

    async def delete(self, pod: Pod) -> None:
        """Delete a pod, if it is still there. Raises ApiError."""
        with suppress(NotFound):
            self._pods.put(await self._api.delete(pod))

    async def _mark(self, shape: str, pod: Pod, cost: int) -> None:
        with suppress(NotFound):
            self._pods.put(await self._api.set_deletion_cost(pod, cost))
            self._seen_marks.changed(shape)

    async def _scale(self, deployment: Deployment, replicas: int, version: str | None = None) -> None:
        """Set the replicas."""
        scale = await self._api.scale(deployment.name, replicas, version=version, of=self._owners)
        metadata = replace(
            deployment.metadata,
            resource_version=scale.metadata.resource_version,
            generation=deployment.metadata.generation + 1,
        )
        spec = deployment.spec.model_copy(update={"replicas": scale.spec.replicas})
        self._deployments.put(deployment.model_copy(update={"metadata": metadata, "spec": spec}))

    async def _concurrently(self, calls: Iterable[Callable[[], Awaitable[None]]]) -> None:
        """Run all calls, even if some fail. Raises the first error."""

        async def limited(call: Callable[[], Awaitable[None]]) -> None:
            async with self._calls:
                await call()

        for outcome in await asyncio.gather(*(limited(call) for call in calls), return_exceptions=True):
            if outcome is not None:
                raise outcome
