"""Machines on a real API server with Karpenter's definitions: their reports, and which NodeClaims are deleted."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from clusterra_contracts.heartbeat import Node, NodeClaim
from clusterra_edge_agent.heartbeat.edge_status import EdgeStatus
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_edge_agent.substrate.port import SubstrateUnavailable
from clusterra_lab.kube.kubernetes import ControlPlane, KubectlFailed
from clusterra_lab.machine.process import until
from kube_definitions import define, definitions, undefine
from kube_machines import INITIALIZED, LAUNCHED, NO_CAPACITY, KubeMachines, provider_id
from kube_observer import Observer, observer
from kube_plane import agent_account
from kube_workers import SHAPE, Workers


@pytest.fixture
async def with_karpenter(plane: ControlPlane) -> ControlPlane:
    await define(plane, await definitions("karpenter"))
    return plane


@pytest.fixture
async def machines(with_karpenter: ControlPlane) -> AsyncIterator[KubeMachines]:
    machines = KubeMachines(with_karpenter)
    yield machines
    await machines.delete_all()


@pytest.fixture
def workers(plane: ControlPlane, namespace: str) -> Workers:
    return Workers(plane, namespace)


async def test_node_claims_are_unknown_until_karpenter_is_installed(
    plane: ControlPlane, workers: Workers, tmp_path: Path
) -> None:
    files = await definitions("karpenter")
    await undefine(plane, files)
    with structlog.testing.capture_logs() as logs:
        async with observer(workers, tmp_path) as edge:
            status = await edge.until(
                lambda status: status.stuck is not None and status.nodes is not None, "pods and nodes"
            )
            assert (status.stuck, status.nodes, status.node_claims, status.prices) == ((), (), None, None)

            await define(plane, files)
            status = await edge.until(lambda status: status.node_claims is not None, "NodeClaims")
            assert status.node_claims == ()
    absent = [line for line in logs if line["event"] == "api_server_not_followed"]

    assert len(absent) == 1, "it is logged once"
    assert "nodeclaims" in absent[0]["collection"]


async def test_workers_are_known_without_permission_to_list_machines(
    with_karpenter: ControlPlane, workers: Workers, tmp_path: Path
) -> None:
    agent = await agent_account(with_karpenter, workers.namespace)
    role = f"clusterra-edge-agent-{workers.namespace}"
    async with observer(workers, tmp_path, agent) as edge:
        status = await edge.until(
            lambda status: status.node_claims is not None and status.nodes is not None, "machines"
        )
        assert (status.nodes, status.node_claims) == ((), ())
    await with_karpenter.kubectl("delete", "clusterrolebinding", role)

    async def no_right() -> bool:
        try:
            await with_karpenter.kubectl("get", "nodes", f"--kubeconfig={agent}")
        except KubectlFailed as error:
            return "forbidden" in str(error)
        return False

    await until(no_right, seconds=60, what="the permission to be revoked", every=0.1)
    with structlog.testing.capture_logs() as logs:
        async with observer(workers, tmp_path, agent) as edge:
            status = await edge.until(lambda status: status.stuck is not None, "pods")
            await until(lambda: len(forbidden_collections(logs)) == 2, seconds=60, what="two errors 403")
            assert (status.nodes, status.node_claims) == (None, None)
            assert await edge.substrate.workers() == ()
            account = f"--serviceaccount={workers.namespace}:edge-agent"
            await with_karpenter.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", account)
            await edge.until(
                lambda status: status.node_claims is not None and status.nodes is not None, "machines again"
            )
    assert len(forbidden_collections(logs)) == 2, "each is logged once"


def forbidden_collections(logs: Any) -> list[str]:
    return [line["collection"] for line in logs if "403" in line.get("reason", "")]


async def test_nodes_and_node_claims_are_reported_as_they_change(
    machines: KubeMachines, workers: Workers, tmp_path: Path
) -> None:
    async with observer(workers, tmp_path) as edge:
        await edge.until(lambda status: status.node_claims == () and status.nodes == (), "no machine")
        await machines.claim("slurmd-general-x1")
        (claim,) = (await edge.until(lambda status: status.node_claims, "the claim")).node_claims or ()

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
        assert claim.billable_from < ordered_at, "the time of the condition"

        await machines.node("1")
        (node,) = (await edge.until(lambda status: status.nodes, "the node")).nodes or ()
        assert node == Node(
            name="1", ready=False, created_at=node.created_at, instance_type="m7g.large", instance_id="i-1"
        )

        await machines.set_status("node", "1", conditions=[{"type": "Ready", "status": "True"}])
        await edge.until(lambda status: status.nodes and status.nodes[0].ready, "the node to be ready")
        await machines.node("other", family="")
        await machines.claim("web-1", family="web")
        await machines.node("2")
        status = await edge.until(lambda status: len(status.nodes or ()) == 2, "the second node")

        assert {node.name for node in status.nodes or ()} == {"1", "2"}
        assert [claim.name for claim in status.node_claims or ()] == ["slurmd-general-x1"]

        await workers.kubernetes.kubectl("delete", "nodeclaim", "slurmd-general-x1")
        await edge.until(lambda status: status.node_claims == (), "the claim to go")


def launched(status: EdgeStatus) -> bool:
    return bool(status.node_claims and status.node_claims[0].launched)


async def test_kubelet_heartbeats_are_no_change(machines: KubeMachines, workers: Workers, tmp_path: Path) -> None:
    await machines.node("1")
    await machines.claim("c1", conditions=[LAUNCHED])
    async with observer(workers, tmp_path) as edge:
        await edge.until(lambda status: status.nodes and launched(status), "the machines")
        await until(lambda: edge.notifications, seconds=60, what="the first notification")
        await until_quiet(edge)
        before = edge.notifications
        for number in range(20):
            sign = {
                "lastHeartbeatTime": f"2026-01-01T00:00:{number:02}Z",
                "reason": "KubeletReady",
                "message": f"{number}",
            }
            ready = {"type": "Ready", "status": "Unknown", **sign}
            await machines.set_status("node", "1", conditions=[ready], images=[{"names": [f"image-{number}"]}])
            await workers.kubernetes.kubectl("annotate", "nodeclaim", "c1", f"number={number}", "--overwrite")
        # Then ten changes at once.
        await asyncio.gather(*(machines.node(f"more-{number}") for number in range(10)))
        await edge.until(lambda status: len(status.nodes or ()) == 11, "the new nodes")
        await until(lambda: edge.notifications > before, seconds=60, what="the notification")

        await until_quiet(edge)

        # The node controller also marks the nodes as not ready, at some point.
        assert edge.notifications - before <= 6


async def until_quiet(edge: Observer) -> None:
    """Waits until no notification is pending."""
    await until(lambda: edge._source.change_signal._end is None, seconds=60, what="the last notification")


async def test_stuck_workers_are_reported_with_their_cause(
    machines: KubeMachines, workers: Workers, tmp_path: Path
) -> None:
    await workers.deploy(replicas=2, nodeSelector={"clusterra.io/family": "general", "size": "none"})
    async with observer(workers, tmp_path) as edge:

        def causes(status: EdgeStatus) -> list[tuple[str, int]]:
            return [(line.cause, line.workers) for line in status.stuck or ()]

        status = await edge.until(lambda status: causes(status) == [("insufficient_capacity", 2)], "two without a node")
        assert status.stuck
        assert status.stuck[0].message.startswith("Unschedulable: ")
        await machines.claim("c1", conditions=[NO_CAPACITY])
        status = await edge.until(lambda status: status.stuck and "m7g" in status.stuck[0].message, "the lack")
        assert causes(status) == [("insufficient_capacity", 2)]
        await machines.set_status("nodeclaim", "c1", conditions=[LAUNCHED])
        await edge.until(lambda status: causes(status) == [("insufficient_capacity", 1)], "one to have a machine")
        await machines.set_status("nodeclaim", "c1", conditions=[LAUNCHED, INITIALIZED])
        await edge.until(lambda status: causes(status) == [("insufficient_capacity", 2)], "it to be another's")
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"pods": "2"}},
        }
        await workers.kubectl("create", "--filename=-", stdin=json.dumps(quota))
        await workers.kubectl("scale", "deployment", f"slurmd-{SHAPE}", "--replicas=3")
        await edge.until(lambda status: ("quota", 0) in causes(status), "the quota")
        await workers.kubectl("delete", "resourcequota", "q")
        await workers.kubectl("scale", "deployment", f"slurmd-{SHAPE}", "--replicas=4")
        await edge.until(lambda status: causes(status) == [("insufficient_capacity", 4)], "no quota")


async def test_only_idle_node_claims_are_deleted(machines: KubeMachines, workers: Workers, tmp_path: Path) -> None:
    """`busy` has a running worker, `booting` a worker that does not run yet, and `web` is not a worker machine."""
    for name in ("idle", "busy", "booting"):
        await machines.claim(name, conditions=[LAUNCHED], providerID=provider_id(name), nodeName=name)
        await machines.node(name)
    await machines.claim("unlaunched")
    await machines.claim("web", family="web")
    for name in ("busy", "booting"):
        # The pod garbage collector does not delete them, because their nodes exist.
        await workers.deploy(f"general-{name}", 1, nodeName=name, tolerations=[{"operator": "Exists"}])

    async def bound() -> bool:
        return {pod.spec.node_name for pod in await workers.pods()} == {"busy", "booting"}

    await until(bound, seconds=60, what="the workers to be bound")
    (pod,) = [pod.name for pod in await workers.pods() if pod.spec.node_name == "busy"]
    await workers.set_status(pod, "Running", ready=True)
    async with observer(workers, tmp_path, ghost_seconds=1.0) as edge:
        await until(
            lambda: are_deleted(machines, "idle", "unlaunched"),
            seconds=60,
            what="the idle NodeClaims to be deleted",
            every=0.1,
        )
        await workers.kubectl("delete", "deployment", "slurmd-general-busy", "--wait=false")
        await workers.kubectl("delete", "pod", pod, "--force", "--ignore-not-found")
        await until(lambda: are_deleted(machines, "busy"), seconds=60, what="the NodeClaim that is idle now", every=0.1)
        await edge.until(lambda status: [claim.name for claim in status.node_claims or ()] == ["booting"], "one left")
    assert await machines.claims() == {"booting", "web"}


async def are_deleted(machines: KubeMachines, *names: str) -> bool:
    return not await machines.claims() & set(names)


async def test_a_worker_that_no_watch_delivered_keeps_its_machine(
    machines: KubeMachines, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machines.claim("busy", conditions=[LAUNCHED], providerID=provider_id("busy"), nodeName="busy")
    await machines.node("busy")
    await workers.deploy(replicas=1, nodeName="busy", tolerations=[{"operator": "Exists"}])
    await until(workers.pods, seconds=60, what="the worker")
    monkeypatch.setattr(KubernetesSubstrate, "pods", lambda _: {})
    with structlog.testing.capture_logs() as logs:
        async with observer(workers, tmp_path, ghost_seconds=0.5) as edge:
            await edge.until(lambda status: status.node_claims, "the claim")
            await until(
                lambda: [line for line in logs if line["event"] == "ghost_has_a_worker"],
                seconds=60,
                what="the check before the deletion",
            )

    assert await machines.claims() == {"busy"}


async def test_no_node_claim_is_deleted_while_workers_are_unknown(
    machines: KubeMachines, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machines.claim("idle")
    passes = 0

    def unknown(_: KubernetesSubstrate) -> None:
        nonlocal passes
        passes += 1
        raise SubstrateUnavailable("nobody knows")

    monkeypatch.setattr(KubernetesSubstrate, "pods", unknown)
    async with observer(workers, tmp_path, ghost_seconds=0.1) as edge:
        await edge.until(lambda status: status.node_claims, "the claim")
        before = passes
        await until(lambda: passes > before + 30, seconds=60, what="many passes")
        assert edge.status().stuck is None
    assert await machines.claims() == {"idle"}
