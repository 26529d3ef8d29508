"""The `kubernetes` substrate: each shape's workers are the pods of one Deployment."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import structlog
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.scale import DesiredState, ShapeTarget

from clusterra_edge_agent.changes import Changes
from clusterra_edge_agent.kubernetes.api import Api, ApiError, Collection, Conflict, NotFound, Throttled
from clusterra_edge_agent.kubernetes.calm import Calm
from clusterra_edge_agent.kubernetes.pod_records import PodRecords
from clusterra_edge_agent.kubernetes.reflector import Reflector
from clusterra_edge_agent.kubernetes.replicas import Plan, plan
from clusterra_edge_agent.kubernetes.resources import SHAPE_LABEL, Deployment, Pod, Scale
from clusterra_edge_agent.substrate import News, SubstrateUnavailable

log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0
UNSETTLED_SECONDS = 0.5
"""When to look again at what the controllers make of it, if no watch tells before."""
CALLS_AT_ONCE = 16


class KubernetesSubstrate:
    """Keeps the replicas of each shape's Deployment as desired; see `replicas` for how none but victims are lost."""

    kind: Literal["kubernetes"] = "kubernetes"

    def __init__(self, api: Api, folder: Path) -> None:
        self.changes = Changes()
        self._api = api
        self._records = PodRecords(folder / "pods")
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._calm = Calm(folder / "trouble.json")
        self._by_shape: defaultdict[ShapeName, dict[WorkerName, Pod]] = defaultdict(dict)
        self._deployments = Reflector(
            api, Collection.deployments(api.namespace, SHAPE_LABEL), lambda old, new: None, self._deployments_told
        )
        self._pods = Reflector(api, Collection.pods(api.namespace, SHAPE_LABEL), self._pod_changed, self._pods_told)
        self._compared = False

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with asyncio.TaskGroup() as following:
            following.create_task(self._deployments.run())
            following.create_task(self._pods.run())

    async def workers(self) -> tuple[Worker, ...]:
        """All pods of all shapes."""
        self._check_following()
        return tuple(
            Worker(
                name=pod.name,
                shape=shape,
                phase=pod.worker_phase,
                started_at=pod.created_at,
                reason=pod.reason,
            )
            for shape, pods in self._by_shape.items()
            for pod in pods.values()
        )

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
        targets = {target.shape: target for target in desired.targets or ()}
        waits = await asyncio.gather(*(self._apply(target, is_current) for target in targets.values()))
        return min((wait for wait in waits if wait is not None), default=None)

    def untold(self) -> tuple[News, ...]:
        """Facts of all pods; a pod's end comes last."""
        return self._records.untold()

    async def told(self, news: News) -> None:
        """A pod whose end has been told is forgotten; one that failed is deleted, since its ReplicaSet does not."""
        name = news.worker
        try:
            self._records.told(news)
        except OSError as error:
            raise SubstrateUnavailable(f"the record of {name} cannot be written: {error}") from error
        pod = self._pods.objects.get(name)
        if news.fact.kind == "worker.failed" and pod is not None and pod.over:
            try:
                await self._delete(pod)
            except ApiError as error:
                log.warning("failed_pod_not_deleted", worker=name, reason=str(error))

    def _check_following(self) -> None:
        if not (self._deployments.following and self._pods.following):
            raise SubstrateUnavailable("the API server cannot be followed at the moment")

    def _deployments_told(self) -> None:
        if not self._deployments.following:
            self._calm.disturb()
        self.changes.tell()

    def _pods_told(self) -> None:
        if not self._pods.following:
            self._calm.disturb()
        elif not self._compared:
            self._records.compare(self._pods.objects.keys())
            self._compared = True
        self.changes.tell()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        shape = pod.shape if pod else None
        if pod is None or shape is None:
            return
        if new is None:
            self._by_shape[shape].pop(pod.name, None)
        else:
            self._by_shape[shape][pod.name] = new
        self._records.observe(old, new, shape)

    async def _apply(self, target: ShapeTarget, is_current: Callable[[], bool]) -> float | None:
        deployment = next((each for each in self._deployments.objects.values() if each.shape == target.shape), None)
        if deployment is None:
            if target.replicas == 0:
                return None
            log.warning("no_deployment", shape=target.shape, label=f"{SHAPE_LABEL}={target.shape}")
            return RETRY_SECONDS
        pods = list(self._by_shape[target.shape].values())
        if not is_current():
            return 0.0
        try:
            step = plan(deployment, pods, target.replicas, target.victims, calm=self._calm.reached)
            self._records.expect_to_go(pods, {pod.name for pod in pods if step.costs.get(pod.name, pod.cost) < 0})
            await self._carry_out(step, deployment)
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
        return UNSETTLED_SECONDS if step.unsettled or step.deletions else None

    async def _carry_out(self, step: Plan, deployment: Deployment) -> None:
        """Raises ApiError; what was done until then is seen by the next plan."""
        pods = self._by_shape[deployment.shape or ""]
        await self._at_once(partial(self._mark, pods[name], cost) for name, cost in step.costs.items())
        if step.raise_to is not None:
            self._scaled(deployment, await self._api.scale(deployment.name, step.raise_to))
        await self._at_once(partial(self._delete, pods[name]) for name in step.deletions if name in pods)
        if step.lower_to is not None:
            version = deployment.metadata.resource_version
            self._scaled(deployment, await self._api.scale(deployment.name, step.lower_to, version=version))
        if step.deletions or step.raise_to is not None or step.lower_to is not None:
            log.info(
                "deployment_changed",
                deployment=deployment.name,
                replicas_before=deployment.spec.replicas,
                replicas=step.lower_to if step.lower_to is not None else step.raise_to,
                deletions=step.deletions,
            )

    async def _mark(self, pod: Pod, cost: int) -> None:
        with suppress(NotFound):
            self._pods.put(await self._api.set_deletion_cost(pod, cost))

    async def _delete(self, pod: Pod) -> None:
        with suppress(NotFound):
            self._pods.put(await self._api.delete(pod))

    def _scaled(self, deployment: Deployment, scale: Scale) -> None:
        """See our own change before the watch shows it."""
        metadata = deployment.metadata.model_copy(
            update={
                "resource_version": scale.metadata.resource_version,
                "generation": deployment.metadata.generation + 1,
            }
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
