"""Stand-ins for two operators, in tests on a real API server with their real CustomResourceDefinitions.

Neither operator itself runs here: these do what their sources do with the pods of a NodeSet, and nothing else. There
is no Slurm, so that every node counts as drained; Slinky's operator would wait for that before it deletes a pod. KWOK
plays kubelet's part.
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

LOOK_AGAIN_SECONDS = 0.05
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
SLINKY = "nodeset.slinky.slurm.net"

type Operator = Callable[[Api], "NodeSetOperator"]


@dataclass(frozen=True, slots=True, config=CONFIG)
class OperatorsPodMetadata(SlinkyPodMetadata):
    """All of it."""

    annotations: dict[str, str] = Field(default_factory=dict)


class NodeSetOperator(ABC):
    """Looks again and again at all NodeSets of a namespace and their pods.

    A NodeSet's annotations, which the operators do not read, say on which nodes its pods may run.
    """

    group: str
    nodeset_label: str
    pod: type[Pod] = Pod

    def __init__(self, api: Api) -> None:
        self.api = api
        self.turn = asyncio.Lock()
        """Whoever holds it keeps the operator from doing anything."""
        self.nodesets = f"/apis/{self.group}/namespaces/{api.namespace}/nodesets"
        self._pods = Collection.pods(api.namespace, "").path

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            with suppress(Conflict, NotFound, Throttled):
                async with self.turn:
                    await self.look()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def look(self) -> None:
        """At all NodeSets, once."""
        for nodeset in await self.items(self.nodesets):
            await self.sync(nodeset)

    @abstractmethod
    async def sync(self, nodeset: dict[str, Any]) -> None:
        """Make the pods of a NodeSet what it asks for."""

    async def items(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(await self.api._call("GET", path))["items"]
        return items

    async def pods(self, nodeset: dict[str, Any]) -> list[Pod]:
        selector = f"{self.nodeset_label}={nodeset['metadata']['name']}"
        found, _ = await self.api.list(Collection(self._pods, selector, self.pod))
        return found

    async def make(self, nodeset: dict[str, Any], ordinal: int, labels: dict[str, str]) -> None:
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
    """With the annotations that only the operator reads."""

    metadata: OperatorsPodMetadata


class SlinkyOperator(NodeSetOperator):
    """As `internal/controller/nodeset` of slurm-operator 1.2 in StatefulSet mode.

    It compares its replicas with all pods that exist, terminating ones too. Missing ones get the lowest free ordinals.
    Of too many, those are deleted that come first in the order of `utils/sort.go`. At the right count, failed pods are
    deleted. The status follows.
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
            await self.make(nodeset, free, labels | identity)
        for pod in sorted(pods, key=self._order)[: max(len(pods) - replicas, 0)]:
            await self.delete(pod)
        if len(pods) == replicas:
            for pod in pods:
                if pod.over:
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
    """As `internal/controller/nodesetcontroller` of Soperator 5 for ephemeral NodeSets, with OpenKruise's StatefulSet.

    It makes a NodeSetPowerState of the NodeSet's name with the first active nodes. Each active ordinal gets a pod once
    the one before has gone, all other pods are deleted, and so are failed ones.
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
            await self._make_power_state(name, active)
            return
        (power_state,) = found
        active = power_state["spec"].get("activeNodes", [])
        pods = {ordinal(pod): pod for pod in await self.pods(nodeset)}
        for number in set(active) - pods.keys():
            await self.make(nodeset, number, {"slurm.nebius.ai/worker": "true", self.nodeset_label: name})
        for number, pod in pods.items():
            if number not in active or pod.over:
                await self.delete(pod)
        await self.set_status(self.power_states, power_state, activeCount=len(active))

    async def _make_power_state(self, name: str, active: list[int]) -> None:
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
    """Run one for a namespace until the block ends. Raises what has ended it before."""
    async with connected(namespace, kubeconfig) as api:
        started = of(api)
        running = asyncio.create_task(started.run())
        try:
            yield started
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
