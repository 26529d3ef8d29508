"""The `kubernetes` substrate: each shape's workers are the pods of one Deployment or one NodeSet."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import structlog
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.scale import DesiredState, ShapeTarget

from clusterra_edge_agent.kubernetes.client.api import Api, Collection
from clusterra_edge_agent.kubernetes.client.errors import ApiError, Conflict, Throttled
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Deployment, Pod
from clusterra_edge_agent.kubernetes.workers.calls import WorkerCalls
from clusterra_edge_agent.kubernetes.workers.deletion_policy import DeletionPolicy, can_probe
from clusterra_edge_agent.kubernetes.workers.pod_records import PodRecords
from clusterra_edge_agent.kubernetes.workers.removable import in_use, removable, without_reused_names
from clusterra_edge_agent.kubernetes.workers.removal import Outdated, if_still_desired
from clusterra_edge_agent.kubernetes.workers.replicas import Plan, plan
from clusterra_edge_agent.kubernetes.workers.seen_marks import SeenMarks
from clusterra_edge_agent.kubernetes.workers.stale_cache import StaleCacheGuard
from clusterra_edge_agent.kubernetes.workers.targets import TargetFactory, deployments
from clusterra_edge_agent.substrate.change_signal import ChangeSignal
from clusterra_edge_agent.substrate.port import DesiredCheck, SessionServer, SubstrateUnavailable, WorkerEvent

log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0
UNSETTLED_SECONDS = 0.5
"""When to check the controllers' progress again, unless a watch reports it earlier."""
UNSCALABLE_RETRY_SECONDS = 30.0
"""Interval of the error about a shape that cannot be scaled. A watch reports the change that is needed."""


class KubernetesSubstrate:
    """Keeps the replicas of each shape's Deployment as desired; `replicas` explains how only victims are removed.

    Where NodeSets are the target, "Deployment" here means the NodeSet of a shape.
    """

    kind: Literal["kubernetes"] = "kubernetes"

    def __init__(self, api: Api, folder: Path, target_factory: TargetFactory = deployments) -> None:
        self.change_signal = ChangeSignal()
        self._api = api
        self._records = PodRecords(folder / "pods", lambda: api.leadership.another_acts)
        self._stale_cache_guard = StaleCacheGuard(folder / "trouble.json")
        self._deletion_policy = DeletionPolicy(api)
        self._seen_marks = SeenMarks()
        self._kept: dict[ShapeName, set[WorkerName]] = {}
        """Victims that are in use, as last logged."""
        self._by_shape: defaultdict[ShapeName, dict[WorkerName, Pod]] = defaultdict(dict)
        self._workers: dict[WorkerName, Worker] = {}
        """Workers as heartbeats show them. Cached, because heartbeats are frequent and few of thousands of workers
        change."""
        self._target = target_factory(api.namespace)
        self._shapes: dict[str, ShapeName] = {}
        """Shapes of NodeSets by name. Deleted ones stay, because events of their pods may be pending."""
        self._deployments = Reflector(api, self._target.owners, self._on_deployment_change, self._on_deployments_sync)
        self._pods = Reflector(api, self._target.pods, self._on_pod_change, self._on_pods_sync)
        self._calls = WorkerCalls(api, self._target.owners, self._deployments, self._pods, self._seen_marks)
        self._reflectors: list[Reflector[Any]] = [self._deployments, self._pods]
        self._resynced = False

    async def run(self) -> None:
        """Follows the API server, until cancelled."""
        async with asyncio.TaskGroup() as following:
            for reflector in self._reflectors:
                following.create_task(reflector.run())

    async def workers(self) -> tuple[Worker, ...]:
        """Returns the pods of all shapes."""
        self._check_following()
        return tuple(self._workers.values())

    def pods(self) -> Mapping[ShapeName, Mapping[WorkerName, Pod]]:
        """Returns the pods of each shape. Raises SubstrateUnavailable."""
        self._check_following()
        return self._by_shape

    def deployments(self) -> Iterable[Deployment]:
        """Returns the Deployments of all shapes. Raises SubstrateUnavailable."""
        self._check_following()
        return self._deployments.objects.values()

    @property
    def caches_fresh(self) -> bool:
        """Whether the controllers' caches are fresh: the API server had no recent outage."""
        return self._stale_cache_guard.caches_fresh

    async def apply(self, desired: DesiredState, check: DesiredCheck) -> float | None:
        """See `Substrate.apply`. Shapes are handled concurrently."""
        self._check_following()
        targets = {target.shape: target for target in desired.targets or ()}
        if self._target.stateful:
            targets = {
                shape: without_reused_names(target, self._by_shape[shape], desired.decided_at)
                for shape, target in targets.items()
            }
        waits = await asyncio.gather(*(self._apply(target, check) for target in targets.values()))
        return min((wait for wait in waits if wait is not None), default=None)

    async def session_host(self, worker: WorkerName, server: SessionServer) -> str | None:
        """Returns the address of the worker's pod, in which only the jobs of the worker can listen.

        Whose server it is cannot be seen from here: the gateway submits sessions so that their workers run no job of
        another user.
        """
        pod = self._pods.objects.get(worker)
        if pod is None or not pod.active or not pod.started:
            return None
        try:
            found, _ = await self._api.list(Collection.pod_address(self._api.namespace, worker))
        except ApiError as error:
            raise SubstrateUnavailable(f"the address of {worker} cannot be read: {error}") from error
        return next((each.status.pod_ip for each in found if each.metadata.uid == pod.metadata.uid), None)

    def pending_events(self) -> tuple[WorkerEvent, ...]:
        """Returns the pending events of all pods. A pod's end comes last."""
        return self._records.pending_events()

    async def mark_published(self, event: WorkerEvent) -> None:
        """Records the event as published. Deletes a failed pod unless its controller does."""
        name = event.worker
        try:
            self._records.mark_published(event)
        except OSError as error:
            raise SubstrateUnavailable(f"the record of {name} cannot be written: {error}") from error
        pod = self._pods.objects.get(name)
        if event.fact.kind == "worker.failed" and pod is not None and pod.ended and not self._target.stateful:
            try:
                await self._calls.delete(pod)
            except ApiError as error:
                log.warning("failed_pod_not_deleted", worker=name, reason=str(error))

    def _check_following(self) -> None:
        if not all(reflector.following for reflector in self._reflectors):
            raise SubstrateUnavailable("the API server cannot be followed now")

    def _on_deployments_sync(self) -> None:
        self._stale_cache_guard.record("deployments", self._deployments.following)
        self.change_signal.notify()

    def _on_pods_sync(self) -> None:
        self._stale_cache_guard.record("pods", self._pods.following)
        if self._pods.following and not self._resynced:
            self._records.resync(self._pods.objects.values())
            self._resynced = True
        self.change_signal.notify()

    def _on_deployment_change(self, old: Deployment | None, new: Deployment | None) -> None:
        """Assigns a shape to pods that were observed before the NodeSet they belong to."""
        if new is None or new.shape is None or self._shapes.get(new.name) == new.shape:
            return
        before = self._shapes.get(new.name)
        self._shapes[new.name] = new.shape
        for pod in self._pods.objects.values():
            if self._target.owner_of(pod) == new.name:
                if before is not None:
                    self._by_shape[before].pop(pod.name, None)
                self._on_pod_change(None, pod)

    def _shape_of(self, pod: Pod) -> ShapeName | None:
        return pod.shape if self._target.owner_label is None else self._shapes.get(self._target.owner_of(pod) or "")

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        shape = self._shape_of(pod) if pod else None
        if pod is None or shape is None:
            return
        if new is None:
            self._by_shape[shape].pop(pod.name, None)
            self._workers.pop(pod.name, None)
        else:
            self._by_shape[shape][pod.name] = new
            self._workers[pod.name] = _worker_of(new, shape)
        self._records.observe(old, new, shape)

    async def _apply(self, target: ShapeTarget, check: DesiredCheck) -> float | None:
        deployment = next((each for each in self._deployments.objects.values() if each.shape == target.shape), None)
        if deployment is None:
            if target.replicas == 0:
                return None
            log.warning("no_deployment", shape=target.shape, label=f"{SHAPE_LABEL}={target.shape}")
            return RETRY_SECONDS
        if problem := self._unscalable_reason(deployment):
            log.error("not_scaled", shape=target.shape, owner=deployment.name, reason=problem)
            return UNSCALABLE_RETRY_SECONDS
        try:
            return await self._converge(deployment, target, check)
        except OSError as error:
            raise SubstrateUnavailable(f"the victims of {target.shape} cannot be recorded: {error}") from error
        except Outdated:
            return 0.0
        except SubstrateUnavailable as error:
            log.warning("nothing_removed", shape=target.shape, reason=str(error))
            return RETRY_SECONDS
        except Conflict as error:
            log.info("changed_meanwhile", shape=target.shape, reason=str(error))
            return UNSETTLED_SECONDS
        except Throttled as error:
            log.warning("api_server_throttles", shape=target.shape, seconds=error.retry_after_seconds)
            return error.retry_after_seconds
        except ApiError as error:
            log.warning("api_server_refused", shape=target.shape, reason=str(error))
            return RETRY_SECONDS

    def _unscalable_reason(self, deployment: Deployment) -> str:
        """Why a shape cannot be scaled, whatever is desired; empty when it can."""
        alike = [each.name for each in self._deployments.objects.values() if each.shape == deployment.shape]
        if self._target.stateful and len(alike) > 1:
            return f"{' and '.join(alike)} have the same shape: keep the label {SHAPE_LABEL} on only one of them"
        return deployment.unscalable

    async def _converge(self, deployment: Deployment, target: ShapeTarget, check: DesiredCheck) -> float | None:
        """Does what can be done for a shape now; see `Substrate.apply` for the result.

        Raises ApiError, Outdated, and OSError when the victims cannot be recorded.
        """
        step = await self._run_step(deployment.name, target, check)
        while step is not None and step.unsettled and step.costs:
            # The answers to the marks are all that the next step needs, so it does not wait for the watch.
            step = await self._run_step(deployment.name, target, check)
        if step is None:
            return 0.0
        kept = in_use(target, self._by_shape[target.shape])
        if kept != self._kept.get(target.shape, set()):
            log.warning("victims_in_use", shape=target.shape, workers=sorted(kept))
        self._kept[target.shape] = kept
        return UNSETTLED_SECONDS if step.unsettled or step.deletions or kept else None

    async def _run_step(self, owner: str, target: ShapeTarget, check: DesiredCheck) -> Plan | None:
        """Executes and returns the next step for a shape, or None when the situation has changed.

        Raises ApiError, Outdated, and OSError when the victims cannot be recorded.
        """
        policy_enforced = await self._is_policy_enforced(owner, target)
        deployment, pods = self._deployments.objects.get(owner), list(self._by_shape[target.shape].values())
        if deployment is None or not check.is_current():
            return None
        victims = removable(target, self._by_shape[target.shape])
        step = plan(
            deployment,
            pods,
            target.replicas,
            victims,
            caches_fresh=self._are_caches_fresh(target.shape),
            policy_enforced=policy_enforced,
        )
        self._records.mark_removing(pods, {pod.name for pod in pods if step.costs.get(pod.name, pod.cost) < 0})
        # An unregistered worker may begin to serve while the newest desired state is read.
        remove_if = partial(if_still_desired, check, lambda: victims <= removable(target, self._by_shape[target.shape]))
        await self._calls.execute(step, deployment, self._by_shape[target.shape], remove_if)
        return step

    def _are_caches_fresh(self, shape: ShapeName) -> bool:
        """Whether the controllers act on present copies of the pods, with all marks."""
        seen = not self._target.stateful or self._seen_marks.are_seen(shape)
        return seen and self._stale_cache_guard.caches_fresh

    async def _is_policy_enforced(self, owner: str, target: ShapeTarget) -> bool:
        """Whether the API server protects all other workers when replicas are lowered. Raises ApiError."""
        deployment = self._deployments.objects.get(owner)
        if self._target.stateful or deployment is None or deployment.spec.replicas <= target.replicas:
            return False
        pods = self._by_shape[target.shape].values()
        return await self._deletion_policy.is_enforced(next((pod for pod in pods if can_probe(pod)), None))


def _worker_of(pod: Pod, shape: ShapeName) -> Worker:
    return Worker(
        name=pod.name,
        shape=shape,
        phase=pod.worker_phase,
        started_at=pod.created_at,
        reason=pod.reason,
        node=pod.spec.node_name,
    )
