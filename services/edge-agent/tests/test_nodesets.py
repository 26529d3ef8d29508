"""Workers in NodeSets of Slinky and of Soperator: a real API server with the real definitions, and KWOK nodes.

The operators are stand-ins (`kube_operators`). The agent has exactly the permissions that k8s/edge grants for each.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.events import WorkerFact
from clusterra_edge_agent.app import open_substrate
from clusterra_edge_agent.kubernetes.client.api import Api, connected
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL
from clusterra_edge_agent.kubernetes.election.lease import KubernetesLease
from clusterra_edge_agent.kubernetes.workers import seen_marks
from clusterra_edge_agent.kubernetes.workers.soperator import PowerStateSubstrate
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_edge_agent.kubernetes.workers.targets import slinky
from clusterra_edge_agent.settings import Settings
from clusterra_lab.kube.kubernetes import ControlPlane, KubectlFailed
from clusterra_lab.machine.process import until
from kube_agent import Agent, agent
from kube_definitions import define, definitions
from kube_operators import NodeSetOperator, Operator, SlinkyOperator, Soperator, operator
from kube_workers import SHAPE, Workers

ROOT = Path(__file__).parents[3]
EDGE = ROOT / "k8s" / "edge"
POD_COST = "nodeset.slinky.slurm.net/pod-deletion-cost"


@dataclass(frozen=True)
class Kind:
    """One of the two operators."""

    name: str
    operator: Operator
    substrate: Callable[[Api, Path], KubernetesSubstrate]
    api_version: str
    spec: dict[str, Any]
    """The smallest spec that its definition accepts."""


SLINKY = Kind(
    "slinky",
    SlinkyOperator,
    partial(KubernetesSubstrate, target_factory=slinky),
    "slinky.slurm.net/v1beta1",
    {"controllerRef": {"name": "slurm"}, "replicas": 0},
)
IMAGE = {"image": {"repository": "slurmd"}, "resources": {"cpu": "1"}}
SOPERATOR = Kind(
    "soperator",
    Soperator,
    PowerStateSubstrate,
    "slurm.nebius.ai/v1alpha1",
    {
        "replicas": 12,
        "ephemeralNodes": True,
        "initialNumberEphemeralNodes": 0,
        "updateStrategy": "rollingUpdate",
        "munge": IMAGE,
        "slurmd": IMAGE | {"volumes": {"spool": {}, "jail": {}}},
    },
)
both = pytest.mark.parametrize("kind", [SLINKY, SOPERATOR], ids=lambda kind: kind.name)
only_slinky = pytest.mark.parametrize("kind", [SLINKY], ids=lambda kind: kind.name)
only_soperator = pytest.mark.parametrize("kind", [SOPERATOR], ids=lambda kind: kind.name)


class Edge:
    """A namespace with an operator, and the runs of its agent."""

    def __init__(self, workers: Workers, folder: Path, kind: Kind, kubeconfig: Path, operator: NodeSetOperator) -> None:
        self.workers = workers
        self.operator = operator
        self.facts: list[WorkerFact] = []
        self.kind = kind
        self.folder = folder
        self.kubeconfig = kubeconfig
        """The agent's kubeconfig."""

    def agent(self) -> AbstractAsyncContextManager[Agent]:
        namespace = self.workers.namespace
        return agent(self.kubeconfig, namespace, self.folder, self.facts, substrate_of=self.kind.substrate)

    @property
    def _nodesets(self) -> str:
        return f"nodesets.{self.kind.api_version.partition('/')[0]}"

    async def create_nodeset(
        self, name: str = "w", *, size: str = "big", shape: str | None = SHAPE, **spec: Any
    ) -> None:
        metadata = {"name": name, "annotations": {"size": size}, "labels": {SHAPE_LABEL: shape} if shape else {}}
        nodeset = {
            "apiVersion": self.kind.api_version,
            "kind": "NodeSet",
            "metadata": metadata,
            "spec": self.kind.spec | spec,
        }
        await self.workers.kubectl("create", "--filename=-", "--validate=strict", stdin=json.dumps(nodeset))

    async def label(self, name: str, shape: str) -> None:
        await self.workers.kubectl("label", self._nodesets, name, f"{SHAPE_LABEL}={shape}")

    async def patch_nodeset(self, *, name: str = "w", **spec: Any) -> None:
        patch = json.dumps({"spec": spec})
        await self.workers.kubectl("patch", self._nodesets, name, "--type=merge", f"--patch={patch}")

    async def replicas(self, name: str = "w") -> int:
        """Returns how many workers the operator is asked for."""
        if self.kind is SOPERATOR:
            return len(await self.active(name))
        return int(await self.workers.kubectl("get", self._nodesets, name, "--output=jsonpath={.spec.replicas}"))

    async def until_replicas(self, wanted: int) -> None:
        async def reached() -> bool:
            return await self.replicas() == wanted

        await until(reached, seconds=240, what=f"{wanted} replicas", every=0.1)

    async def active(self, name: str = "w") -> list[int]:
        listed = await self.workers.kubectl("get", "nodesetpowerstates", name, "--output=json")
        ordinals: list[int] = json.loads(listed)["spec"].get("activeNodes", [])
        return ordinals

    async def activate(self, *ordinals: int) -> None:
        """Sets the active nodes as Slurm's own resume program does."""
        patch = json.dumps({"spec": {"activeNodes": ordinals}})
        await self.workers.kubectl("patch", "nodesetpowerstates", "w", "--type=merge", f"--patch={patch}")

    async def scale_as_others_do(self, replicas: int) -> None:
        """Scales the NodeSet as somebody else would."""
        await (self.activate(*range(replicas)) if self.kind is SOPERATOR else self.patch_nodeset(replicas=replicas))

    def fact_kinds(self, *names: str) -> dict[str, list[str]]:
        """Returns the kinds of facts published for these workers, in order."""
        return {name: [fact.kind for fact in self.facts if fact.worker == name] for name in names}

    async def until_published(self, kinds: Collection[str], *names: str) -> None:
        await until(
            lambda: {fact.worker for fact in self.facts if fact.kind in kinds} >= set(names),
            seconds=240,
            what=f"{kinds} of {names}",
        )


ENDS = ("worker.failed", "worker.lost")
"""The ends of a worker that was not a victim."""


@pytest.fixture
async def edge(
    plane: ControlPlane,
    fake_nodes: None,
    namespace: str,
    tmp_path: Path,
    kind: Kind,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Edge]:
    # These stand-ins do not lag; `test_slinky_chaos` has one that does.
    monkeypatch.setattr(seen_marks, "SEEN_SECONDS", 0.0)
    await define(plane, await definitions(kind.name, "*nodeset*"))
    rights = (EDGE / kind.name / "rights.yaml").read_text().replace("namespace: slurm", f"namespace: {namespace}")
    await plane.kubectl("create", "--filename=-", input=rights)
    kubeconfig = await plane.service_account(namespace, "edge-agent")
    async with operator(kind.operator, plane.kubeconfig, namespace) as running:
        yield Edge(Workers(plane, namespace), tmp_path / "agent", kind, kubeconfig, running)


@both
async def test_scaling_from_zero_to_three_and_back(edge: Edge) -> None:
    await edge.create_nodeset()
    async with edge.agent() as agent:
        agent.desire(1, 3)
        names = await agent.running(3)

        assert names == ["w-0", "w-1", "w-2"], "the names of the Slurm nodes"

        await agent.applied(1)
        agent.desire(2, 0, names)
        await agent.running(0)
        await edge.until_published(["worker.stopped"], *names)

    assert edge.fact_kinds(*names) == {name: ["worker.started", "worker.stopped"] for name in names}
    assert await edge.replicas() == 0


@both
async def test_only_victims_are_removed(edge: Edge) -> None:
    await edge.create_nodeset()
    async with edge.agent() as agent:
        agent.desire(1, 8)
        names = await agent.running(8)
        victims, others = names[1::3], sorted(set(names) - set(names[1::3]))

        agent.desire(2, 8 - len(victims), victims)

        assert await agent.running(len(others)) == others

        await edge.until_published(["worker.stopped"], *victims)
        await agent.applied(2)
    assert Counter(fact.kind for fact in edge.facts) == {"worker.started": 8, "worker.stopped": len(victims)}
    assert await edge.replicas() == len(others)

    annotations = await edge.workers.kubectl("get", "pods", "--output=jsonpath={.items[*].metadata.annotations}")
    assert POD_COST not in annotations


@both
async def test_a_reused_name_is_another_worker(edge: Edge) -> None:
    await edge.create_nodeset()
    async with edge.agent() as agent:
        agent.desire(1, 2)
        await agent.running(2)
        agent.desire(2, 1, ["w-0"])

        assert await agent.running(1) == ["w-1"]

        agent.desire(3, 2)
        assert await agent.running(2) == ["w-0", "w-1"]

        await until(
            lambda: len(edge.fact_kinds("w-0")["w-0"]) == 3, seconds=240, what="the second start to be published"
        )
        await agent.applied(3)

    assert edge.fact_kinds("w-0", "w-1") == {
        "w-0": ["worker.started", "worker.stopped", "worker.started"],
        "w-1": ["worker.started"],
    }


@both
async def test_replicas_set_by_others_are_reset_and_the_lost_worker_is_reported(edge: Edge) -> None:
    await edge.create_nodeset()
    async with edge.agent() as agent:
        agent.desire(1, 3)
        names = await agent.running(3)
        await agent.applied(1)
    # Without an agent the replicas cannot be reset in time.
    await edge.scale_as_others_do(2)
    await until(lambda: _is_removed(edge, "w-2"), seconds=240, what="a worker to be removed", every=0.1)
    async with edge.agent() as agent:
        await edge.until_published(ENDS, "w-2")
        agent.desire(2, 3)
        assert await agent.running(3) == names
        await edge.until_published(["worker.started"], *names)

    assert await edge.replicas() == 3
    assert [fact.worker for fact in edge.facts if fact.kind in ENDS] == ["w-2"]


async def _is_removed(edge: Edge, name: str) -> bool:
    return name not in {pod.name for pod in await edge.workers.pods()}


@both
async def test_a_failed_pod_is_reported_and_replaced_by_its_operator(edge: Edge) -> None:
    await edge.create_nodeset()
    async with edge.agent() as agent:
        agent.desire(1, 1)
        await agent.running(1)
        await edge.until_published(["worker.started"], "w-0")
        await edge.workers.set_status("w-0", "Failed", ready=False)

        await until(
            lambda: len(edge.fact_kinds("w-0")["w-0"]) == 3, seconds=240, what="the replacement to be published"
        )

        assert await agent.running(1) == ["w-0"]

    assert edge.fact_kinds("w-0")["w-0"] == ["worker.started", "worker.failed", "worker.started"]


@both
async def test_a_running_cluster_is_attached_by_a_label(edge: Edge) -> None:
    await edge.create_nodeset("cpu", shape=None)
    await edge.create_nodeset("gpu", shape=None)
    async with edge.agent() as agent:
        for name in ("cpu", "gpu"):
            if edge.kind is SLINKY:
                await edge.patch_nodeset(name=name, replicas=2)
            else:
                await until(partial(_has_power_state, edge, name), seconds=240, what="the NodeSetPowerState", every=0.1)
                patch = json.dumps({"spec": {"activeNodes": [0, 1]}})
                await edge.workers.kubectl("patch", "nodesetpowerstates", name, "--type=merge", f"--patch={patch}")
        await until(lambda: _pods(edge, 4), seconds=240, what="the workers", every=0.1)
        assert await agent.running(0, SHAPE) == [], "no NodeSet is labelled"

        agent.desire(1, 1, ["gpu-0"])
        await edge.label("gpu", SHAPE)
        assert await agent.running(1) == ["gpu-1"]

        await edge.until_published(["worker.stopped"], "gpu-0")

    assert {fact.worker for fact in edge.facts} == {"gpu-0", "gpu-1"}
    assert {pod.name for pod in await edge.workers.pods() if pod.active} == {"cpu-0", "cpu-1", "gpu-1"}


async def _has_power_state(edge: Edge, name: str) -> bool:
    return name in await edge.workers.kubectl("get", "nodesetpowerstates", "--output=name")


async def _pods(edge: Edge, number: int) -> bool:
    pods = await edge.workers.pods()
    return len(pods) == number and all(pod.ready for pod in pods)


@both
async def test_a_shape_with_two_nodesets_is_not_scaled(edge: Edge) -> None:
    await edge.create_nodeset()
    await edge.create_nodeset("x")
    async with edge.agent() as agent:
        agent.desire_all(1, {SHAPE: (2, ()), "memory-xs": (1, ())})
        await edge.create_nodeset("y", shape="memory-xs")

        await agent.running(1, "memory-xs")

        assert await agent.running(0, SHAPE) == []
        assert agent.control_loop.applied is None

        await edge.workers.kubectl("delete", edge._nodesets, "x")
        await agent.running(2, SHAPE)


# Slinky


@only_slinky
async def test_a_victim_is_removed_despite_a_pending_and_an_unready_pod(edge: Edge) -> None:
    await edge.create_nodeset(size="little")
    async with edge.agent() as agent:
        agent.desire(1, 3)
        unready, victim, busy = await agent.running(3)
        agent.desire(2, 4)
        await until(lambda: _has_pending_pod(agent), seconds=240, what="a pod without a node", every=0.05)
        await edge.workers.set_status(unready, "Running", ready=False)
        agent.desire(3, 3, [victim])
        await edge.until_published(["worker.stopped"], victim)

        await agent.applied(3)

        assert {unready, busy} <= (await agent.workers() or {}).keys()

    assert await edge.replicas() == 3
    assert edge.fact_kinds(unready, busy) == {name: ["worker.started"] for name in (unready, busy)}


async def _has_pending_pod(agent: Agent) -> bool:
    return any("Insufficient cpu" in worker.reason for worker in (await agent.workers() or {}).values())


@only_slinky
async def test_a_victim_is_replaced_under_another_name(edge: Edge) -> None:
    await edge.create_nodeset()
    async with edge.agent() as agent:
        agent.desire(1, 2)
        await agent.running(2)
        agent.desire(2, 2, ["w-0"])

        await edge.until_published(["worker.stopped"], "w-0")

        assert await agent.running(2) == ["w-1", "w-2"]

        await agent.applied(2)
        if await edge.replicas() > 2:
            # Replicas were raised once more, so that w-2 is not deleted instead of w-0. The scaler names the new w-0.
            agent.desire(3, 2, ["w-0"])
        await edge.until_replicas(2)


@only_slinky
async def test_deletion_costs_set_by_others_are_removed(edge: Edge) -> None:
    await edge.create_nodeset()
    async with edge.agent() as agent:
        agent.desire(1, 2)
        first, second = await agent.running(2)
        await edge.workers.kubectl("annotate", "pod", first, f"{POD_COST}=-2000")
        agent.desire(2, 1, [second])
        assert await agent.running(1) == [first]


@only_slinky
async def test_nodesets_whose_nodes_are_not_named_after_pods_are_not_scaled(edge: Edge) -> None:
    await edge.create_nodeset(template={"spec": {"hostname": "gpu-"}})
    await edge.create_nodeset("daemons", shape="memory-xs", scalingMode="DaemonSet", replicas=0)
    await edge.create_nodeset("y", shape="compute-xs")
    async with edge.agent() as agent:
        agent.desire_all(1, {SHAPE: (1, ()), "memory-xs": (1, ()), "compute-xs": (1, ())})
        await agent.running(1, "compute-xs")
        assert agent.control_loop.applied is None
        assert [await edge.replicas(name) for name in ("w", "daemons", "y")] == [0, 0, 1]


# Soperator


@only_soperator
async def test_there_are_no_more_workers_than_the_nodeset_has_nodes(edge: Edge) -> None:
    await edge.create_nodeset(replicas=2)
    async with edge.agent() as agent:
        agent.desire(1, 3)
        await agent.running(2)
        assert agent.control_loop.applied is None, "one worker is missing"

        await edge.patch_nodeset(replicas=3)
        assert await agent.running(3) == ["w-0", "w-1", "w-2"]

        await agent.applied(1)


@only_soperator
async def test_nodes_that_slurm_itself_resumes_stay(edge: Edge) -> None:
    await edge.create_nodeset()
    async with edge.agent() as agent:
        agent.desire(1, 1)
        await agent.running(1)
        await edge.activate(0, 7)

        assert await agent.running(2) == ["w-0", "w-7"]

        agent.desire(2, 3)
        assert await agent.running(3) == ["w-0", "w-1", "w-7"]

        agent.desire(3, 2, ["w-0"])
        assert await agent.running(2) == ["w-1", "w-7"]

        await agent.applied(3)

    assert await edge.active() == [1, 7]


@only_soperator
async def test_the_ordinal_of_a_running_worker_is_restored(edge: Edge) -> None:
    await edge.create_nodeset()
    async with edge.agent() as agent:
        agent.desire(1, 3)
        await agent.running(3)
        async with edge.operator.lock:
            await edge.activate(0, 2)
            await until(lambda: _is_active(edge, 0, 1, 2), seconds=240, what="the ordinal to be restored", every=0.05)

        assert await agent.running(3) == ["w-0", "w-1", "w-2"]


async def _is_active(edge: Edge, *ordinals: int) -> bool:
    return await edge.active() == list(ordinals)


@only_soperator
async def test_a_nodeset_whose_nodes_always_run_is_not_scaled(edge: Edge) -> None:
    await edge.create_nodeset(ephemeralNodes=False, initialNumberEphemeralNodes=2)
    async with edge.agent() as agent:
        agent.desire(1, 3)
        await agent.running(2)
        await edge.create_nodeset("y", shape="memory-xs")
        agent.desire_all(2, {SHAPE: (3, ()), "memory-xs": (1, ())})

        await agent.running(1, "memory-xs")

        assert agent.control_loop.applied is None
        assert await edge.active() == [0, 1]

        await edge.patch_nodeset(ephemeralNodes=True)
        await agent.running(3)


@both
async def test_the_agent_has_permission_to_scale_only(edge: Edge) -> None:
    await edge.create_nodeset()
    async with connected(edge.workers.namespace, edge.kubeconfig) as api:
        assert isinstance(edge.kind.substrate(api, edge.folder), KubernetesSubstrate)
    for denied in (
        ("patch", edge._nodesets, "w", "--type=merge", '--patch={"spec":{"replicas":9}}'),
        ("delete", edge._nodesets, "w"),
        ("get", "secrets"),
    ):
        with pytest.raises(KubectlFailed, match="forbidden"):
            await edge.workers.kubectl(*denied, f"--kubeconfig={edge.kubeconfig}")


@both
async def test_the_setting_selects_the_substrate(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERRA_KUBERNETES_TARGET", edge.kind.name)
    settings = Settings(
        tenant="acme",
        cluster="c1",
        substrate="kubernetes",
        kubeconfig=edge.kubeconfig,
        kubernetes_namespace=edge.workers.namespace,
        shared_dir=edge.folder,
        state_dir=edge.folder,
    )
    edge.folder.mkdir(exist_ok=True)
    async with open_substrate(settings) as (substrate, facts, leadership):
        assert isinstance(leadership, KubernetesLease)
        assert isinstance(substrate, PowerStateSubstrate) == (edge.kind is SOPERATOR)
        assert substrate.kind == "kubernetes"
        assert facts is None
