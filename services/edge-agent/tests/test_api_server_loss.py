"""An API server that is killed and started again: what the agent knows and does meanwhile, and afterwards.

Its control plane is no other file's: clients and controllers may need a minute to find the server again.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from clusterra_contracts.events import WorkerFact
from clusterra_edge_agent.heartbeat.edge_status import EdgeStatus
from clusterra_edge_agent.kubernetes.client.api import Api, Collection, connected
from clusterra_edge_agent.kubernetes.client.errors import Expired, Unavailable
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Pod
from clusterra_lab.kube.fake_nodes import kwok_nodes
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.machine.process import until
from kube_agent import Agent, agent, shorten_lease
from kube_definitions import define, definitions
from kube_machines import KubeMachines
from kube_observer import observer
from kube_plane import plane_or_skip
from kube_reflector import followed
from kube_workers import Workers


@pytest.fixture(scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    async with plane_or_skip(tmp_path_factory) as plane, kwok_nodes(plane, 1):
        yield plane


@pytest.fixture
def workers(plane: ControlPlane, namespace: str) -> Workers:
    return Workers(plane, namespace)


@pytest.fixture
async def api(plane: ControlPlane, workers: Workers) -> AsyncIterator[Api]:
    async with connected(workers.namespace, plane.kubeconfig) as api:
        yield api


async def test_workers_are_unknown_without_the_api_server_and_the_agent_catches_up(
    plane: ControlPlane, workers: Workers, tmp_path: Path
) -> None:
    """The first test of this file: KWOK may take a minute to find a killed server again."""
    await workers.deploy()
    facts: list[WorkerFact] = []
    async with agent(plane.kubeconfig, workers.namespace, tmp_path / "agent", facts) as one:
        one.desire(1, 2)
        names = await one.running(2)
        await plane.kill_api_server()
        one.desire(2, 3)
        await until(lambda: _unknown(one), seconds=60, what="the loss of the API server", every=0.05)
        await plane.start_api_server()

        # The pods are not what is tested.
        await one.applied(2)

        assert await workers.replicas() == 3
        assert set(names) <= (await one.workers() or {}).keys()

    assert {fact.kind for fact in facts} == {"worker.started"}


async def _unknown(agent: Agent) -> bool:
    return await agent.workers() is None


async def test_a_holder_stops_without_the_api_server_and_resumes_afterwards(
    plane: ControlPlane, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_lease(monkeypatch)
    await workers.deploy()
    facts: list[WorkerFact] = []
    async with agent(workers.kubernetes.kubeconfig, workers.namespace, tmp_path / "one", facts) as one:
        one.desire(1, 1)
        await one.applied(1)
        killed_at = time.monotonic()
        await plane.kill_api_server()
        try:
            await until(lambda: not one.lease.held, seconds=60, what="the agent to stop", every=0.02)
            seconds = time.monotonic() - killed_at
            assert one.lease.may_report, "it still reports that the substrate is unavailable"
            one.desire(2, 2)
        finally:
            await plane.start_api_server()
        print(f"stopped {seconds:.1f} s after the API server", file=sys.stderr)
        await until(lambda: one.lease.held, seconds=60, what="the agent to hold the Lease", every=0.02)

        await one.applied(2)

        assert await workers.replicas() == 2


async def test_unknown_status_is_not_reported_as_empty(plane: ControlPlane, workers: Workers, tmp_path: Path) -> None:
    await define(plane, await definitions("karpenter"))
    await KubeMachines(plane).node("1")
    async with observer(workers, tmp_path) as edge:
        await edge.until(lambda status: status.nodes and status.node_claims == (), "the machines")
        await plane.kill_api_server()
        try:
            await edge.until(lambda status: status == EdgeStatus(), "nothing to be known")
        finally:
            await plane.start_api_server()
        await edge.until(
            lambda status: status.nodes and status.node_claims == () and status.stuck == (), "the machines"
        )


async def test_a_reflector_recovers_after_the_api_server_was_killed(
    plane: ControlPlane, api: Api, workers: Workers
) -> None:
    name = await workers.deploy(replicas=2)
    async with followed(api) as (pods, changes):
        await until(lambda: len(pods.objects) == 2, seconds=60, what="two pods")
        await plane.kill_api_server()

        await until(lambda: not pods.following, seconds=60, what="the reflector to lose the server")

        assert len(pods.objects) == 2, "they may still exist"
        with pytest.raises(Unavailable):
            await api.scale(name, 1)

        await plane.start_api_server()
        await plane.restart_controllers()
        await api.scale(name, 3)

        async def three_agreed() -> bool:
            listed, _ = await api.list(Collection.pods(api.namespace, SHAPE_LABEL))
            uids = {pod.metadata.uid for pod in listed}
            return pods.following and len(uids) == 3 and _uids(pods) == uids

        await until(three_agreed, seconds=180, what="the same three pods", every=0.05)

    # A ReplicaSet whose request is cut off may make one pod too many, and delete one.
    assert len(changes.came) == len(set(changes.came)), "each pod came once"
    assert len(changes.went) == len(set(changes.went)), "each pod went once"
    assert set(changes.came) - set(changes.went) == _uids(pods)


def _uids(pods: Reflector[Pod]) -> set[str]:
    return {pod.metadata.uid for pod in pods.objects.values()}


async def test_a_reflector_lists_again_when_its_version_has_expired(
    plane: ControlPlane, api: Api, workers: Workers
) -> None:
    name = await workers.deploy(replicas=2)
    async with followed(api) as (pods, changes):
        await until(lambda: len(pods.objects) == 2, seconds=60, what="two pods")
    await api.scale(name, 1)

    async def one_left() -> bool:
        listed, _ = await api.list(Collection.pods(api.namespace, SHAPE_LABEL))
        return len(listed) == 1

    await until(one_left, seconds=60, what="one pod", every=0.05)
    # A new API server has no history from before its start.
    await plane.kill_api_server()
    await plane.start_api_server()

    with pytest.raises(Expired):
        await watched(api, "1")

    pods._version = "1"
    running = asyncio.create_task(pods.run())
    try:
        await until(lambda: len(pods.objects) == 1, seconds=60, what="the new list")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    assert len(changes.went) == 1


async def watched(api: Api, version: str) -> None:
    async with asyncio.timeout(10), api.watch(Collection.pods(api.namespace, SHAPE_LABEL), version) as events:
        async for _ in events:
            pass
