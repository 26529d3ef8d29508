"""Stand-ins for two operators, for tests on a real API server with their real CustomResourceDefinitions.

The operators themselves do not run here. The stand-ins do what the operators' sources do with the pods of a NodeSet,
and nothing else. There is no Slurm, so every node counts as drained; Slinky's operator would wait for that before it
deletes a pod. KWOK plays the part of kubelet.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from clusterra_edge_agent.kubernetes.client.api import Api, Collection, connected
from clusterra_edge_agent.kubernetes.client.errors import Conflict, NotFound, Throttled
from clusterra_edge_agent.kubernetes.client.interning import CONFIG
from clusterra_edge_agent.kubernetes.client.nodesets import SlinkyPod, SlinkyPodMetadata
from clusterra_edge_agent.kubernetes.client.resources import Pod
from pydantic import Field
from pydantic.dataclasses import dataclass

POLL_SECONDS = 0.05
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
SLINKY = "nodeset.slinky.slurm.net"

type Operator = Callable[[Api], "NodeSetOperator"]


@dataclass(frozen=True, slots=True, config=CONFIG)
class OperatorsPodMetadata(SlinkyPodMetadata):
    """Metadata with all annotations."""

    annotations: dict[str, str] = Field(default_factory=dict)


class NodeSetOperator(ABC):
    """Reconciles all NodeSets of a namespace with their pods, again and again.

    The annotations of a NodeSet, which the real operators do not read, become the node selector of its pods.
    """

    group: str
    nodeset_label: str
    pod: type[Pod] = Pod

    def __init__(self, api: Api) -> None:
        self.api = api
        self.lock = asyncio.Lock()
        """While a test holds it, the operator does nothing."""
        self.nodesets = f"/apis/{self.group}/namespaces/{api.namespace}/nodesets"
        self._pods = Collection.pods(api.namespace, "").path

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            with suppress(Conflict, NotFound, Throttled):
                async with self.lock:
                    await self.sync_all()
            await asyncio.sleep(POLL_SECONDS)

    async def sync_all(self) -> None:
        """Reconciles all NodeSets once."""
        for nodeset in await self.items(self.nodesets):
            await self.sync(nodeset)

    @abstractmethod
    async def sync(self, nodeset: dict[str, Any]) -> None:
        """Makes the pods of a NodeSet match its spec."""

    async def items(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(await self.api._call("GET", path))["items"]
        return items

    async def pods(self, nodeset: dict[str, Any]) -> list[Pod]:
        selector = f"{self.nodeset_label}={nodeset['metadata']['name']}"
        found, _ = await self.api.list(Collection(self._pods, selector, self.pod))
        return found

    async def create_pod(self, nodeset: dict[str, Any], ordinal: int, labels: dict[str, str]) -> None:
        metadata = nodeset["metadata"]
        owner = {"apiVersion": self.group, "kind": "NodeSet", "name": metadata["name"], "uid": metadata["uid"]}
        name = f"{metadata['name']}-{ordinal}"
        container = {"name": "slurmd", "image": "slurmd", "resources": {"requests": {"cpu": "1"}}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "ownerReferences": [{**owner, "controller": True}]},
            "spec": {
                "hostname": name,
                "containers": [container],
                "nodeSelector": metadata.get("annotations", {}),
                "terminationGracePeriodSeconds": 1,
            },
        }
        await self.api._call("POST", self._pods, body=pod)

    async def delete(self, pod: Pod) -> None:
        if not pod.terminating:
            with suppress(NotFound):
                await self.api.delete(pod)

    async def set_status(self, path: str, found: dict[str, Any], **status: Any) -> None:
        before = found.get("status", {})
        if before | status != before:
            await self.api._call(
                "PATCH",
                f"{path}/{found['metadata']['name']}/status",
                body={"status": status},
                content_type="application/merge-patch+json",
            )


class OperatorsPod(SlinkyPod):
    """A pod with the annotations that only the operator reads."""

    metadata: OperatorsPodMetadata


class SlinkyOperator(NodeSetOperator):
    """Acts like `internal/controller/nodeset` of slurm-operator 1.2 in StatefulSet mode.

    It compares its replicas with all existing pods, including terminating ones. Missing pods get the lowest free
    ordinals. Surplus pods are deleted in the order of `utils/sort.go`. At the right count, failed pods are deleted.
    Finally it updates the status.
    """

    group = "slinky.slurm.net/v1beta1"
    nodeset_label = "app.kubernetes.io/instance"
    pod = OperatorsPod

    async def sync(self, nodeset: dict[str, Any]) -> None:
        name, replicas = nodeset["metadata"]["name"], nodeset["spec"]["replicas"]
        pods = await self.pods(nodeset)
        used = {ordinal(pod) for pod in pods}
        labels = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker", self.nodeset_label: name}
        for _ in range(replicas - len(pods)):
            free = next(number for number in range(1000) if number not in used)
            used.add(free)
            identity = {f"{SLINKY}/pod-name": f"{name}-{free}", f"{SLINKY}/pod-hostname": f"{name}-{free}"}
            await self.create_pod(nodeset, free, labels | identity)
        for pod in sorted(pods, key=self._order)[: max(len(pods) - replicas, 0)]:
            await self.delete(pod)
        if len(pods) == replicas:
            for pod in pods:
                if pod.ended:
                    await self.delete(pod)
        pods = await self.pods(nodeset)
        await self.set_status(
            self.nodesets,
            nodeset,
            replicas=len(pods),
            readyReplicas=sum(pod.ready and pod.status.phase == "Running" for pod in pods),
            observedGeneration=nodeset["metadata"]["generation"],
            nodeSetHash="1",
            selector=f"app.kubernetes.io/instance={name},app.kubernetes.io/name=slurmd",
        )

    @staticmethod
    def _order(pod: Pod) -> tuple[Any, ...]:
        annotations = pod.metadata.annotations
        return (
            bool(pod.spec.node_name),
            PHASES.get(pod.status.phase, 0),
            pod.ready,
            pod.cost,
            annotations.get(f"{SLINKY}/pod-deadline", ""),
            annotations.get(f"{SLINKY}/pod-cordon") != "true",
            -ordinal(pod),
        )


class Soperator(NodeSetOperator):
    """Acts like `internal/controller/nodesetcontroller` of Soperator 5 for ephemeral NodeSets.

    It also plays OpenKruise's StatefulSet. It creates a NodeSetPowerState with the NodeSet's name and the initial
    active nodes. Each active ordinal gets a pod once its previous pod is gone. All other pods are deleted, and so are
    failed ones.
    """

    group = "slurm.nebius.ai/v1alpha1"
    nodeset_label = "slurm.nebius.ai/nodeset"

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.power_states = f"/apis/{self.group}/namespaces/{api.namespace}/nodesetpowerstates"

    async def sync(self, nodeset: dict[str, Any]) -> None:
        name, spec = nodeset["metadata"]["name"], nodeset["spec"]
        found = [each for each in await self.items(self.power_states) if each["metadata"]["name"] == name]
        if not found:
            active = list(range(spec["initialNumberEphemeralNodes"]))
            await self._create_power_state(name, active)
            return
        (power_state,) = found
        active = power_state["spec"].get("activeNodes", [])
        pods = {ordinal(pod): pod for pod in await self.pods(nodeset)}
        for number in set(active) - pods.keys():
            await self.create_pod(nodeset, number, {"slurm.nebius.ai/worker": "true", self.nodeset_label: name})
        for number, pod in pods.items():
            if number not in active or pod.ended:
                await self.delete(pod)
        await self.set_status(self.power_states, power_state, activeCount=len(active))

    async def _create_power_state(self, name: str, active: list[int]) -> None:
        power_state = {
            "apiVersion": self.group,
            "kind": "NodeSetPowerState",
            "metadata": {"name": name, "labels": {self.nodeset_label: name}},
            "spec": {"nodeSetRef": name, "activeNodes": active},
        }
        await self.api._call("POST", self.power_states, body=power_state)


def ordinal(pod: Pod) -> int:
    return int(pod.name.rpartition("-")[2])


@asynccontextmanager
async def operator(of: Operator, kubeconfig: Path, namespace: str) -> AsyncIterator[NodeSetOperator]:
    """Runs an operator for a namespace until the block ends. Raises the error that ended it earlier."""
    async with connected(namespace, kubeconfig) as api:
        started = of(api)
        running = asyncio.create_task(started.run())
        try:
            yield started
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
