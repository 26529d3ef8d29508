"""The `kubernetes` substrate: each shape's workers are the pods of one Deployment, or of one NodeSet."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import structlog
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.scale import DesiredState, ShapeTarget

from clusterra_edge_agent.kubernetes.client.api import Api
from clusterra_edge_agent.kubernetes.client.errors import ApiError, Conflict, NotFound, Throttled
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Deployment, Pod, Scale
from clusterra_edge_agent.kubernetes.workers.deletion_policy import Guard, askable
from clusterra_edge_agent.kubernetes.workers.pod_records import PodRecords
from clusterra_edge_agent.kubernetes.workers.replicas import Plan, plan
from clusterra_edge_agent.kubernetes.workers.stale_cache import Calm
from clusterra_edge_agent.kubernetes.workers.targets import TargetOf, deployments
from clusterra_edge_agent.substrate.changes import Changes
from clusterra_edge_agent.substrate.port import News, SubstrateUnavailable

log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0
UNSETTLED_SECONDS = 0.5
"""When to look again at what the controllers make of it, if no watch tells before."""
UNSCALABLE_SECONDS = 30.0
"""When to say again that a shape cannot be scaled; a watch tells of the change that is needed."""
CALLS_AT_ONCE = 16


class KubernetesSubstrate:
    """Keeps the replicas of each shape's Deployment as desired; see `replicas` for how none but victims are lost.

    What is called a Deployment here is the NodeSet of a shape where that is the target.
    """

    kind: Literal["kubernetes"] = "kubernetes"

    def __init__(self, api: Api, folder: Path, target_of: TargetOf = deployments) -> None:
        self.changes = Changes()
        self._api = api
        self._records = PodRecords(folder / "pods", lambda: api.leadership.another_acts)
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._calm = Calm(folder / "trouble.json")
        self._guard = Guard(api)
        self._by_shape: defaultdict[ShapeName, dict[WorkerName, Pod]] = defaultdict(dict)
        self._workers: dict[WorkerName, Worker] = {}
        """As heartbeats show them: every five seconds and at each change, and of thousands only one has changed."""
        self._where = target_of(api.namespace)
        self._shapes: dict[str, ShapeName] = {}
        """Of NodeSets by name, gone ones too: their pods are still to be told of."""
        self._deployments = Reflector(api, self._where.owners, self._deployment_changed, self._deployments_told)
        self._pods = Reflector(api, self._where.pods, self._pod_changed, self._pods_told)
        self._followed: list[Reflector[Any]] = [self._deployments, self._pods]
        self._compared = False

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with asyncio.TaskGroup() as following:
            for reflector in self._followed:
                following.create_task(reflector.run())

    async def workers(self) -> tuple[Worker, ...]:
        """All pods of all shapes."""
        self._check_following()
        return tuple(self._workers.values())

    def pods(self) -> Mapping[ShapeName, Mapping[WorkerName, Pod]]:
        """The pods of each shape. Raises SubstrateUnavailable."""
        self._check_following()
        return self._by_shape

    def deployments(self) -> Iterable[Deployment]:
        """The Deployments of all shapes. Raises SubstrateUnavailable."""
        self._check_following()
        return self._deployments.objects.values()

    @property
    def calm(self) -> bool:
        """Whether there was no trouble with the API server lately."""
        return self._calm.reached

    async def apply(self, desired: DesiredState, is_current: Callable[[], bool]) -> float | None:
        """See `Substrate.apply`. All shapes side by side."""
        self._check_following()
        targets = {target.shape: self._meant(target, desired.decided_at) for target in desired.targets or ()}
        waits = await asyncio.gather(*(self._apply(target, is_current) for target in targets.values()))
        return min((wait for wait in waits if wait is not None), default=None)

    def untold(self) -> tuple[News, ...]:
        """Facts of all pods; a pod's end comes last."""
        return self._records.untold()

    async def told(self, news: News) -> None:
        """A pod whose end has been told is forgotten; one that failed is deleted where its controller does not."""
        name = news.worker
        try:
            self._records.told(news)
        except OSError as error:
            raise SubstrateUnavailable(f"the record of {name} cannot be written: {error}") from error
        pod = self._pods.objects.get(name)
        if news.fact.kind == "worker.failed" and pod is not None and pod.over and not self._where.stateful:
            try:
                await self._delete(pod)
            except ApiError as error:
                log.warning("failed_pod_not_deleted", worker=name, reason=str(error))

    def _check_following(self) -> None:
        if not all(reflector.following for reflector in self._followed):
            raise SubstrateUnavailable("the API server cannot be followed at the moment")

    def _deployments_told(self) -> None:
        self._calm.note("deployments", self._deployments.following)
        self.changes.tell()

    def _pods_told(self) -> None:
        self._calm.note("pods", self._pods.following)
        if self._pods.following and not self._compared:
            self._records.compare(self._pods.objects.values())
            self._compared = True
        self.changes.tell()

    def _deployment_changed(self, old: Deployment | None, new: Deployment | None) -> None:
        """Pods that name their owner may have been seen before it."""
        if new is None or new.shape is None or self._shapes.get(new.name) == new.shape:
            return
        before = self._shapes.get(new.name)
        self._shapes[new.name] = new.shape
        for pod in self._pods.objects.values():
            if self._where.owner_of(pod) == new.name:
                if before is not None:
                    self._by_shape[before].pop(pod.name, None)
                self._pod_changed(None, pod)

    def _shape_of(self, pod: Pod) -> ShapeName | None:
        return pod.shape if self._where.owner_label is None else self._shapes.get(self._where.owner_of(pod) or "")

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        shape = self._shape_of(pod) if pod else None
        if pod is None or shape is None:
            return
        if new is None:
            self._by_shape[shape].pop(pod.name, None)
            self._workers.pop(pod.name, None)
        else:
            self._by_shape[shape][pod.name] = new
            self._workers[pod.name] = _worker(new, shape)
        self._records.observe(old, new, shape)

    def _meant(self, target: ShapeTarget, decided_at: datetime) -> ShapeTarget:
        """Without the victims whose name has been given to a pod that was made after the decision."""
        if not self._where.stateful:
            return target
        pods = self._by_shape[target.shape]
        meant = (name for name in target.victims if name not in pods or pods[name].created_at <= decided_at)
        return target.model_copy(update={"victims": tuple(meant)})

    async def _apply(self, target: ShapeTarget, is_current: Callable[[], bool]) -> float | None:
        deployment = next((each for each in self._deployments.objects.values() if each.shape == target.shape), None)
        if deployment is None:
            if target.replicas == 0:
                return None
            log.warning("no_deployment", shape=target.shape, label=f"{SHAPE_LABEL}={target.shape}")
            return RETRY_SECONDS
        if problem := self._problem(deployment):
            log.error("not_scaled", shape=target.shape, owner=deployment.name, reason=problem)
            return UNSCALABLE_SECONDS
        try:
            return await self._converge(deployment, target, is_current)
        except OSError as error:
            raise SubstrateUnavailable(f"the victims of {target.shape} cannot be noted: {error}") from error
        except Conflict as error:
            log.info("changed_meanwhile", shape=target.shape, reason=str(error))
            return UNSETTLED_SECONDS
        except Throttled as error:
            log.warning("api_server_throttles", shape=target.shape, seconds=error.retry_after_seconds)
            return error.retry_after_seconds
        except ApiError as error:
            log.warning("api_server_refused", shape=target.shape, reason=str(error))
            return RETRY_SECONDS

    def _problem(self, deployment: Deployment) -> str:
        """Why a shape cannot be scaled, whatever is desired; empty when it can."""
        alike = [each.name for each in self._deployments.objects.values() if each.shape == deployment.shape]
        if self._where.stateful and len(alike) > 1:
            return f"{' and '.join(alike)} are of one shape: leave the label {SHAPE_LABEL} to one of them"
        return deployment.unscalable

    async def _converge(
        self, deployment: Deployment, target: ShapeTarget, is_current: Callable[[], bool]
    ) -> float | None:
        """Do what can be done for a shape now; see `Substrate.apply` for the answer.

        Raises ApiError, OSError when the victims cannot be noted.
        """
        step = await self._step(deployment.name, target, is_current)
        while step is not None and step.unsettled and step.costs:
            # The answers to the marks are what the next step needs: no need to wait until the watch shows them.
            step = await self._step(deployment.name, target, is_current)
        if step is None:
            return 0.0
        return UNSETTLED_SECONDS if step.unsettled or step.deletions else None

    async def _step(self, owner: str, target: ShapeTarget, is_current: Callable[[], bool]) -> Plan | None:
        """Carry out what can be done for a shape now, and tell what it was; None when all is different by now.

        Raises ApiError, OSError when the victims cannot be noted.
        """
        guarded = await self._is_guarded(owner, target)
        deployment, pods = self._deployments.objects.get(owner), list(self._by_shape[target.shape].values())
        if deployment is None or not is_current():
            return None
        step = plan(deployment, pods, target.replicas, target.victims, calm=self._calm.reached, guarded=guarded)
        self._records.expect_to_go(pods, {pod.name for pod in pods if step.costs.get(pod.name, pod.cost) < 0})
        await self._carry_out(step, deployment)
        return step

    async def _is_guarded(self, owner: str, target: ShapeTarget) -> bool:
        """Whether no worker can be lost whatever the controllers make of fewer replicas. Raises ApiError."""
        deployment = self._deployments.objects.get(owner)
        if deployment is None or deployment.spec.replicas <= target.replicas:
            return False
        pods = self._by_shape[target.shape].values()
        return await self._guard.holds(next((pod for pod in pods if askable(pod)), None))

    async def _carry_out(self, step: Plan, deployment: Deployment) -> None:
        """Raises ApiError; what was done until then is seen by the next plan."""
        pods = self._by_shape[deployment.shape or ""]
        calls = [partial(self._mark, pods[name], cost) for name, cost in step.costs.items()]
        if step.lower_to is not None:
            calls.append(partial(self._lower, deployment, step.lower_to))
        await self._at_once(calls)
        if step.raise_to is not None:
            self._scaled(deployment, await self._api.scale(deployment.name, step.raise_to, of=self._where.owners))
        await self._at_once(partial(self._delete, pods[name]) for name in step.deletions if name in pods)
        if step.deletions or step.raise_to is not None or step.lower_to is not None:
            log.info(
                "deployment_changed",
                deployment=deployment.name,
                replicas_before=deployment.spec.replicas,
                replicas=step.lower_to if step.lower_to is not None else step.raise_to,
                deletions=step.deletions,
            )

    async def _lower(self, deployment: Deployment, replicas: int) -> None:
        version = deployment.metadata.resource_version
        scale = await self._api.scale(deployment.name, replicas, version=version, of=self._where.owners)
        self._scaled(deployment, scale)

    async def _mark(self, pod: Pod, cost: int) -> None:
        with suppress(NotFound):
            self._pods.put(await self._api.set_deletion_cost(pod, cost))

    async def _delete(self, pod: Pod) -> None:
        with suppress(NotFound):
            self._pods.put(await self._api.delete(pod))

    def _scaled(self, deployment: Deployment, scale: Scale) -> None:
        """See our own change before the watch shows it."""
        metadata = replace(
            deployment.metadata,
            resource_version=scale.metadata.resource_version,
            generation=deployment.metadata.generation + 1,
        )
        spec = deployment.spec.model_copy(update={"replicas": scale.spec.replicas})
        self._deployments.put(deployment.model_copy(update={"metadata": metadata, "spec": spec}))

    async def _at_once(self, calls: Iterable[Callable[[], Awaitable[None]]]) -> None:
        """Do all of them, whatever becomes of the others. Raises the first ApiError."""

        async def limited(call: Callable[[], Awaitable[None]]) -> None:
            async with self._calls:
                await call()

        for outcome in await asyncio.gather(*(limited(call) for call in calls), return_exceptions=True):
            if outcome is not None:
                raise outcome


def _worker(pod: Pod, shape: ShapeName) -> Worker:
    return Worker(name=pod.name, shape=shape, phase=pod.worker_phase, started_at=pod.created_at, reason=pod.reason)
