"""Machines on a real API server with Karpenter's own definitions: what is told of them, and the end of ghosts."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import structlog
from clusterra_contracts.heartbeat import Node, NodeClaim
from clusterra_edge_agent.heartbeat.edge_facts import Facts
from clusterra_edge_agent.kubernetes.client.api import connected
from clusterra_edge_agent.kubernetes.machines.node_facts import NodeFacts
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_edge_agent.substrate.port import SubstrateUnavailable
from clusterra_lab.kube.kubernetes import ControlPlane, KubectlFailed
from clusterra_lab.machine.process import until
from kube_definitions import define, definitions
from kube_machines import INITIALIZED, LAUNCHED, NO_CAPACITY, KubeMachines, provider_id
from kube_plane import RIGHTS, plane_or_skip
from kube_workers import SHAPE, Workers

NAMES = count()
NEVER = 1e9


@pytest.fixture(scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """Without Karpenter at first."""
    async with plane_or_skip(tmp_path_factory) as plane:
        yield plane


@pytest.fixture(scope="module")
async def karpenter_s(plane: ControlPlane) -> ControlPlane:
    files = definitions("karpenter")
    listed = await plane.kubectl("get", "customresourcedefinitions", "--output=name")
    if "nodeclaims.karpenter.sh" not in listed:
        await define(plane, files)
    return plane


@pytest.fixture
async def machines(karpenter_s: ControlPlane) -> AsyncIterator[KubeMachines]:
    yield KubeMachines(karpenter_s)
    await karpenter_s.kubectl("delete", "nodeclaims", "--all")
    await karpenter_s.kubectl("delete", "nodes", "--all")


@pytest.fixture
async def workers(plane: ControlPlane) -> AsyncIterator[Workers]:
    namespace = f"edge-{next(NAMES)}"
    await plane.kubectl("create", "namespace", namespace)
    workers = Workers(plane, namespace)
    yield workers
    await workers.kubectl("delete", "deployments", "--all")


class Observer:
    """What an agent would tell, and how often it would have to."""

    def __init__(self, substrate: KubernetesSubstrate, facts: NodeFacts) -> None:
        self.substrate = substrate
        self.tellings = 0
        self._facts = facts

    def now(self) -> Facts:
        return self._facts.facts()

    async def count(self) -> None:
        changed = asyncio.Event()
        self._facts.changes.listen(changed)
        while True:
            await changed.wait()
            changed.clear()
            self.tellings += 1

    async def until(self, fits: Callable[[Facts], object], what: str) -> Facts:
        await until(lambda: fits(self.now()), seconds=60, what=what, every=0.02)
        return self.now()


@asynccontextmanager
async def observer(
    workers: Workers, folder: Path, kubeconfig: Path | None = None, **options: Any
) -> AsyncIterator[Observer]:
    folder.mkdir(exist_ok=True)
    async with connected(workers.namespace, kubeconfig or workers.kubernetes.kubeconfig) as api:
        substrate = KubernetesSubstrate(api, folder)
        facts = NodeFacts(api, substrate, **{"ghost_seconds": NEVER, "ghost_pass_seconds": 0.1, **options})
        observer = Observer(substrate, facts)
        tasks = [asyncio.create_task(run()) for run in (substrate.run, facts.run, observer.count)]
        try:
            yield observer
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def test_without_karpenter_its_claims_are_unknown_until_it_is_installed(
    plane: ControlPlane, workers: Workers, tmp_path: Path
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with observer(workers, tmp_path) as edge:
            facts = await edge.until(
                lambda facts: facts.stuck is not None and facts.nodes is not None, "pods and nodes"
            )
            assert (facts.stuck, facts.nodes, facts.node_claims, facts.prices) == ((), (), None, None)
            await define(plane, definitions("karpenter"))
            facts = await edge.until(lambda facts: facts.node_claims is not None, "NodeClaims")
            assert facts.node_claims == ()
    absent = [line for line in logs if line["event"] == "api_server_not_followed"]
    assert len(absent) == 1, "it is said once"
    assert "nodeclaims" in absent[0]["collection"]


async def test_without_the_right_to_see_machines_the_workers_are_known_all_the_same(
    karpenter_s: ControlPlane, tmp_path: Path
) -> None:
    await karpenter_s.kubectl("create", "namespace", "slurm")
    await karpenter_s.kubectl("create", f"--filename={RIGHTS}")
    workers, agent = Workers(karpenter_s, "slurm"), await karpenter_s.service_account("slurm", "edge-agent")
    async with observer(workers, tmp_path, agent) as edge:
        facts = await edge.until(lambda facts: facts.node_claims is not None and facts.nodes is not None, "machines")
        assert (facts.nodes, facts.node_claims) == ((), ())
    await karpenter_s.kubectl("delete", "clusterrolebinding", "clusterra-edge-agent")

    async def no_right() -> bool:
        try:
            await karpenter_s.kubectl("get", "nodes", f"--kubeconfig={agent}")
        except KubectlFailed as error:
            return "forbidden" in str(error)
        return False

    await until(no_right, seconds=60, what="the right to be gone", every=0.1)
    with structlog.testing.capture_logs() as logs:
        async with observer(workers, tmp_path, agent) as edge:
            facts = await edge.until(lambda facts: facts.stuck is not None, "pods")
            await until(lambda: len(refusals(logs)) == 2, seconds=60, what="two refusals")
            assert (facts.nodes, facts.node_claims) == (None, None)
            assert await edge.substrate.workers() == ()
            role = "--clusterrole=clusterra-edge-agent"
            account = "--serviceaccount=slurm:edge-agent"
            await karpenter_s.kubectl("create", "clusterrolebinding", "clusterra-edge-agent", role, account)
            await edge.until(lambda facts: facts.node_claims is not None and facts.nodes is not None, "machines again")
    assert len(refusals(logs)) == 2, "each is said once"


def refusals(logs: Any) -> list[str]:
    return [line["collection"] for line in logs if "403" in line.get("reason", "")]


async def test_nodes_and_claims_of_our_workers_are_told_as_they_become(
    machines: KubeMachines, workers: Workers, tmp_path: Path
) -> None:
    async with observer(workers, tmp_path) as edge:
        await edge.until(lambda facts: facts.node_claims == () and facts.nodes == (), "no machine")
        await machines.claim("slurmd-general-x1")
        (claim,) = (await edge.until(lambda facts: facts.node_claims, "the claim")).node_claims or ()
        assert (claim.name, claim.launched, claim.node_name, claim.instance_id) == ("slurmd-general-x1", False, "", "")
        ordered_at = claim.billable_from
        await machines.set_status(
            "nodeclaim", claim.name, providerID=provider_id("1"), nodeName="node-1", conditions=[LAUNCHED]
        )
        (claim,) = (await edge.until(launched, "the launch")).node_claims or ()
        assert claim == NodeClaim(
            name="slurmd-general-x1",
            nodepool="slurmd-general",
            instance_id="i-1",
            instance_type="m7g.large",
            lifecycle="spot",
            zone="eu-west-1a",
            node_name="node-1",
            launched=True,
            billable_from=claim.billable_from,
        )
        assert claim.billable_from < ordered_at, "as the condition says"
        await machines.node("1")
        (node,) = (await edge.until(lambda facts: facts.nodes, "the node")).nodes or ()
        assert node == Node(
            name="1", ready=False, created_at=node.created_at, instance_type="m7g.large", instance_id="i-1"
        )
        await machines.set_status("node", "1", conditions=[{"type": "Ready", "status": "True"}])
        await edge.until(lambda facts: facts.nodes and facts.nodes[0].ready, "the node to be ready")
        await machines.node("other", family="")
        await machines.claim("web-1", family="web")
        await machines.node("2")
        facts = await edge.until(lambda facts: len(facts.nodes or ()) == 2, "the second node")
        assert {node.name for node in facts.nodes or ()} == {"1", "2"}
        assert [claim.name for claim in facts.node_claims or ()] == ["slurmd-general-x1"]
        await workers.kubernetes.kubectl("delete", "nodeclaim", "slurmd-general-x1")
        await edge.until(lambda facts: facts.node_claims == (), "the claim to go")


def launched(facts: Facts) -> bool:
    return bool(facts.node_claims and facts.node_claims[0].launched)


async def test_signs_of_life_of_a_node_are_no_news(machines: KubeMachines, workers: Workers, tmp_path: Path) -> None:
    await machines.node("1")
    await machines.claim("c1", conditions=[LAUNCHED])
    async with observer(workers, tmp_path) as edge:
        await edge.until(lambda facts: facts.nodes and launched(facts), "the machines")
        await until(lambda: edge.tellings, seconds=60, what="the first telling")
        await settled(edge)
        before = edge.tellings
        for number in range(20):
            sign = {
                "lastHeartbeatTime": f"2026-01-01T00:00:{number:02}Z",
                "reason": "KubeletReady",
                "message": f"{number}",
            }
            ready = {"type": "Ready", "status": "Unknown", **sign}
            await machines.set_status("node", "1", conditions=[ready], images=[{"names": [f"image-{number}"]}])
            await workers.kubernetes.kubectl("annotate", "nodeclaim", "c1", f"number={number}", "--overwrite")
        # Ten changes at once, after all that.
        await asyncio.gather(*(machines.node(f"more-{number}") for number in range(10)))
        await edge.until(lambda facts: len(facts.nodes or ()) == 11, "the new nodes")
        await until(lambda: edge.tellings > before, seconds=60, what="the news")
        await settled(edge)
        # The node controller marks them as not ready besides, some time.
        assert edge.tellings - before <= 6


async def settled(edge: Observer) -> None:
    """Wait until nothing is to be told."""
    await until(lambda: edge._facts.changes._end is None, seconds=60, what="the last telling")


async def test_what_is_stuck_is_told_with_its_cause(machines: KubeMachines, workers: Workers, tmp_path: Path) -> None:
    await workers.deploy(replicas=2, nodeSelector={"clusterra.io/family": "general", "size": "none"})
    async with observer(workers, tmp_path) as edge:

        def told(facts: Facts) -> list[tuple[str, int]]:
            return [(line.cause, line.workers) for line in facts.stuck or ()]

        facts = await edge.until(lambda facts: told(facts) == [("insufficient_capacity", 2)], "two without a node")
        assert facts.stuck
        assert facts.stuck[0].message.startswith("Unschedulable: ")
        await machines.claim("c1", conditions=[NO_CAPACITY])
        facts = await edge.until(lambda facts: facts.stuck and "m7g" in facts.stuck[0].message, "the lack")
        assert told(facts) == [("insufficient_capacity", 2)]
        await machines.set_status("nodeclaim", "c1", conditions=[LAUNCHED])
        await edge.until(lambda facts: told(facts) == [("insufficient_capacity", 1)], "one to have a machine")
        await machines.set_status("nodeclaim", "c1", conditions=[LAUNCHED, INITIALIZED])
        await edge.until(lambda facts: told(facts) == [("insufficient_capacity", 2)], "it to be another's")
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"pods": "2"}},
        }
        await workers.kubectl("create", "--filename=-", stdin=json.dumps(quota))
        await workers.kubectl("scale", "deployment", f"slurmd-{SHAPE}", "--replicas=3")
        await edge.until(lambda facts: ("quota", 0) in told(facts), "the quota")
        await workers.kubectl("delete", "resourcequota", "q")
        await workers.kubectl("scale", "deployment", f"slurmd-{SHAPE}", "--replicas=4")
        await edge.until(lambda facts: told(facts) == [("insufficient_capacity", 4)], "no quota")


async def test_what_cannot_be_known_is_not_told_as_none(
    machines: KubeMachines, workers: Workers, tmp_path: Path
) -> None:
    plane = workers.kubernetes
    assert isinstance(plane, ControlPlane)
    await machines.node("1")
    async with observer(workers, tmp_path) as edge:
        await edge.until(lambda facts: facts.nodes and facts.node_claims == (), "the machines")
        await plane.kill_api_server()
        try:
            await edge.until(lambda facts: facts == Facts(), "nothing to be known")
        finally:
            await plane.start_api_server()
        await edge.until(lambda facts: facts.nodes and facts.node_claims == () and facts.stuck == (), "the machines")


async def test_ghosts_are_removed_one_by_one_and_nothing_that_carries_a_worker(
    machines: KubeMachines, workers: Workers, tmp_path: Path
) -> None:
    """`busy` has a worker that runs, `booting` one that does not yet, and `web` is no machine of workers."""
    for name in ("idle", "busy", "booting"):
        await machines.claim(name, conditions=[LAUNCHED], providerID=provider_id(name), nodeName=name)
        await machines.node(name)
    await machines.claim("unlaunched")
    await machines.claim("web", family="web")
    for name in ("busy", "booting"):
        # The pod garbage collector lets them be: their nodes exist.
        await workers.deploy(f"general-{name}", 1, nodeName=name, tolerations=[{"operator": "Exists"}])

    async def bound() -> bool:
        return {pod.spec.node_name for pod in await workers.pods()} == {"busy", "booting"}

    await until(bound, seconds=60, what="the workers to be bound")
    (pod,) = [pod.name for pod in await workers.pods() if pod.spec.node_name == "busy"]
    await workers.set_status(pod, "Running", ready=True)
    async with observer(workers, tmp_path, ghost_seconds=1.0) as edge:
        await until(lambda: gone(machines, "idle", "unlaunched"), seconds=60, what="the ghosts to go", every=0.1)
        await workers.kubectl("delete", "deployment", "slurmd-general-busy", "--wait=false")
        await workers.kubectl("delete", "pod", pod, "--force", "--ignore-not-found")
        await until(lambda: gone(machines, "busy"), seconds=60, what="the one that is idle now", every=0.1)
        await edge.until(lambda facts: [claim.name for claim in facts.node_claims or ()] == ["booting"], "one left")
    assert await machines.claims() == {"booting", "web"}


async def gone(machines: KubeMachines, *names: str) -> bool:
    return not await machines.claims() & set(names)


async def test_a_worker_that_no_watch_has_shown_keeps_its_machine(
    machines: KubeMachines, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machines.claim("busy", conditions=[LAUNCHED], providerID=provider_id("busy"), nodeName="busy")
    await machines.node("busy")
    await workers.deploy(replicas=1, nodeName="busy", tolerations=[{"operator": "Exists"}])
    await until(workers.pods, seconds=60, what="the worker")
    monkeypatch.setattr(KubernetesSubstrate, "pods", lambda _: {})
    with structlog.testing.capture_logs() as logs:
        async with observer(workers, tmp_path, ghost_seconds=0.5) as edge:
            await edge.until(lambda facts: facts.node_claims, "the claim")
            await until(
                lambda: [line for line in logs if line["event"] == "ghost_has_a_worker"],
                seconds=60,
                what="a second look",
            )
    assert await machines.claims() == {"busy"}


async def test_without_a_view_of_the_workers_no_machine_is_removed(
    machines: KubeMachines, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machines.claim("idle")
    looks = 0

    def unknown(_: KubernetesSubstrate) -> None:
        nonlocal looks
        looks += 1
        raise SubstrateUnavailable("nobody knows")

    monkeypatch.setattr(KubernetesSubstrate, "pods", unknown)
    async with observer(workers, tmp_path, ghost_seconds=0.1) as edge:
        await edge.until(lambda facts: facts.node_claims, "the claim")
        seen = looks
        await until(lambda: looks > seen + 30, seconds=60, what="many looks")
        assert edge.now().stuck is None
    assert await machines.claims() == {"idle"}
