"""A stand-in for Slinky's operator with what was seen of release 1.2.1 on a real cluster, and the Slurm that it asks.

- Its watches of pods and of NodeSets lag, apart from each other.
- A sync takes up to two seconds, and reads no newer copies meanwhile.
- A surplus pod is deleted only once its node is drained and idle. Until then the operator cordons the pod and drains
  the node with a reason of its own, whatever the reason was before.
- The pods that stay lose its cordon, and their node loses a drain with its own reason: also one that was ours.
- A pod that anybody deletes by name ends at once, with the job that runs on it.
"""

import asyncio
import random
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from clusterra_edge_agent.kubernetes.client.api import Api
from clusterra_edge_agent.kubernetes.client.errors import Conflict, NotFound, Throttled
from clusterra_edge_agent.kubernetes.client.nodesets import SLINKY_CORDON
from clusterra_edge_agent.kubernetes.client.resources import Pod
from kube_operators import SlinkyOperator

MAX_LAG_SECONDS = 1.5
MAX_SYNC_SECONDS = 2.0
RECORD_SECONDS = 0.1
OWN_REASON = "slurm-operator: "
_STRATEGIC = "application/strategic-merge-patch+json"
_MERGE = "application/merge-patch+json"


@dataclass
class SlurmNodes:
    """The nodes of the pods in Slurm, by name."""

    drained: dict[str, str] = field(default_factory=dict)
    """Reasons of the drains."""
    busy: set[str] = field(default_factory=set)
    """Nodes on which a job runs."""
    killed: list[str] = field(default_factory=list)
    """Nodes whose pod was deleted while a job ran there."""
    undone: int = 0
    """Drains that the operator has undone."""
    _uids: dict[str, str] = field(default_factory=dict)

    def observe(self, pods: list[Pod]) -> None:
        """Notes the deletions since the last call. A new pod of the same name is another node."""
        by_name = {pod.name: pod for pod in pods}
        for name, uid in list(self._uids.items()):
            pod = by_name.get(name)
            if pod is None or pod.metadata.uid != uid or pod.terminating:
                if name in self.busy:
                    self.killed.append(name)
                self.busy.discard(name)
                if pod is None or pod.metadata.uid != uid:
                    self.drained.pop(name, None)
                    del self._uids[name]
        for name, pod in by_name.items():
            if not pod.terminating:
                self._uids.setdefault(name, pod.metadata.uid)

    def is_drained(self, name: str) -> bool:
        return name in self.drained and name not in self.busy

    def conditions(self, name: str) -> dict[str, bool]:
        busy = name in self.busy
        return {"Idle": not busy, "Allocated": busy, "Drain": name in self.drained}


class LaggingSlinkyOperator(SlinkyOperator):
    """Syncs from copies of pods and NodeSets of different age."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.slurm = SlurmNodes()
        self.rng = random.Random(1)
        self.pods_lag_seconds = MAX_LAG_SECONDS
        self.nodesets_lag_seconds = 0.0
        self.sync_seconds = 0.3
        """Mean pause between two syncs."""
        self._copies: deque[tuple[float, list[Pod], list[dict[str, Any]]]] = deque(maxlen=200)
        self._pods_of_sync: list[Pod] = []
        self._shown: dict[str, tuple[str, dict[str, bool]]] = {}

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._record())
            tasks.create_task(self._sync_again_and_again())

    async def _record(self) -> None:
        while True:
            with suppress(NotFound, Throttled):
                nodesets = await super().items(self.nodesets)
                pods = [pod for nodeset in nodesets for pod in await super().pods(nodeset)]
                self.slurm.observe(pods)
                self._copies.append((time.monotonic(), pods, nodesets))
            await asyncio.sleep(RECORD_SECONDS)

    async def _sync_again_and_again(self) -> None:
        while True:
            pods, nodesets = self._copy(self.pods_lag_seconds), self._copy(self.nodesets_lag_seconds)
            self._pods_of_sync = pods[0]
            for nodeset in nodesets[1]:
                with suppress(Conflict, NotFound, Throttled):
                    async with self.lock:
                        await self.sync(nodeset)
            await asyncio.sleep(self.rng.uniform(0, 2 * self.sync_seconds))

    def lag(self, seed: int) -> None:
        """Chooses how the operator lags, by a seed; 0 is the worst: old pods, new NodeSets and frequent syncs."""
        self.rng.seed(seed)
        if seed:
            self.pods_lag_seconds = self.rng.uniform(0, MAX_LAG_SECONDS)
            self.nodesets_lag_seconds = self.rng.uniform(0, MAX_LAG_SECONDS)
            self.sync_seconds = self.rng.uniform(0.1, MAX_SYNC_SECONDS / 2)

    def _copy(self, lag_seconds: float) -> tuple[list[Pod], list[dict[str, Any]]]:
        """The state of some time ago; the oldest one if none is that old."""
        wanted = time.monotonic() - lag_seconds
        older = [each for each in self._copies if each[0] <= wanted] or list(self._copies)[:1]
        return (older[-1][1], older[-1][2]) if older else ([], [])

    async def pods(self, nodeset: dict[str, Any]) -> list[Pod]:
        name = nodeset["metadata"]["name"]
        return [pod for pod in self._pods_of_sync if pod.metadata.labels[self.nodeset_label] == name]

    async def sync(self, nodeset: dict[str, Any]) -> None:
        pods = await self.pods(nodeset)
        condemned = sorted(pods, key=self._order)[: max(len(pods) - nodeset["spec"]["replicas"], 0)]
        for pod in pods:
            if pod not in condemned and not pod.terminating:
                await self._uncordon(pod)
        await super().sync(nodeset)
        for pod in pods:
            if not pod.terminating and pod.started:
                await self._show_states(pod)

    async def delete(self, pod: Pod) -> None:
        """Deletes a surplus pod only once its node is drained."""
        if pod.terminating or not pod.started or pod.ended or self.slurm.is_drained(pod.name):
            await super().delete(pod)
            return
        await self._annotate(pod, "true")
        self.slurm.drained[pod.name] = f"{OWN_REASON}pending termination for scale-in"

    async def _uncordon(self, pod: Pod) -> None:
        if SLINKY_CORDON in pod.metadata.annotations:
            await self._annotate(pod, None)
        if self.slurm.drained.get(pod.name, "").startswith(OWN_REASON):
            del self.slurm.drained[pod.name]
            self.slurm.undone += 1

    async def _annotate(self, pod: Pod, value: str | None) -> None:
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": {SLINKY_CORDON: value}}}
        await self.api._call("PATCH", f"{self._pods}/{pod.name}", body=patch, content_type=_MERGE)

    async def _show_states(self, pod: Pod) -> None:
        states = self.slurm.conditions(pod.name)
        if self._shown.get(pod.name) == (pod.metadata.uid, states):
            return
        conditions = [{"type": f"SlurmNodeState{state}", "status": str(holds)} for state, holds in states.items()]
        await self.api._call(
            "PATCH",
            f"{self._pods}/{pod.name}/status",
            body={"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": conditions}},
            content_type=_STRATEGIC,
        )
        self._shown[pod.name] = (pod.metadata.uid, states)
