"""Workers as pods: a real API server and its controllers, and KWOK nodes, whose pods run immediately."""

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from clusterra_contracts.events import MachineSize, MisclassifiedFact, WorkerFact
from clusterra_edge_agent.substrate.port import SessionServer
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.machine.process import until
from kube_agent import Agent, agent, desired_state
from kube_plane import new_namespace
from kube_workers import SHAPE, Workers

MISCLASSIFIED = (
    '{"misclassified": {"expected": {"cpus": 4, "memory_mib": 14000}, "actual": {"cpus": 2, "memory_mib": 7000}}}\n'
)
ONE_CPU = {"name": "slurmd", "image": "slurmd", "resources": {"requests": {"cpu": "1"}}}


class Edge:
    """A namespace, and the runs of its agent."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path) -> None:
        self.workers = Workers(plane, namespace)
        self.facts: list[WorkerFact] = []
        self._folder = folder

    def agent(self) -> AbstractAsyncContextManager[Agent]:
        return agent(self.workers.kubernetes.kubeconfig, self.workers.namespace, self._folder, self.facts)

    async def deploy_on_big_node(self, shape: str = SHAPE) -> None:
        await self.workers.deploy(shape, nodeSelector={"size": "big"})

    async def deploy_on_little_node(self, shape: str = SHAPE) -> None:
        """On a node that fits three workers, once those of earlier tests are gone from it."""
        selector = "--field-selector=spec.nodeName=little-0"

        async def empty() -> bool:
            return not await self.workers.kubernetes.kubectl("get", "pods", "-A", selector, "--output=name")

        await until(empty, seconds=240, what="a little node without pods of earlier tests", every=0.2)
        await self.workers.deploy(shape, nodeSelector={"size": "little"}, containers=[ONE_CPU])

    def fact_kinds(self, *names: str) -> dict[str, list[str]]:
        """Returns the kinds of facts published for these workers, in order."""
        return {name: [fact.kind for fact in self.facts if fact.worker == name] for name in names}

    async def until_published(self, kind: str, *names: str) -> None:
        await until(
            lambda: {fact.worker for fact in self.facts if fact.kind == kind} >= set(names),
            seconds=240,
            what=f"{kind} of {names}",
        )


@pytest.fixture
def edge(plane: ControlPlane, fake_nodes: None, namespace: str, tmp_path: Path) -> Edge:
    return Edge(plane, namespace, tmp_path / "agent")


async def test_scaling_from_zero_to_three_and_back(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    async with edge.agent() as agent:
        agent.desire(1, 3)
        names = await agent.running(3)
        await agent.applied(1)
        agent.desire(2, 0, names)
        await agent.running(0)
        await edge.until_published("worker.stopped", *names)

    assert edge.fact_kinds(*names) == {key: ["worker.started", "worker.stopped"] for key in names}
    assert await edge.workers.replicas() == 0


async def test_a_session_is_reached_at_the_address_of_its_workers_pod(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    server = SessionServer("42", 20001, 8888)
    async with edge.agent() as agent:
        agent.desire(1, 1)
        (name,) = await agent.running(1)
        address = await edge.workers.kubectl("get", "pod", name, "--output=jsonpath={.status.podIP}")

        assert await agent.substrate.session_host(name, server) == address
        assert await agent.substrate.session_host("nobody", server) is None
        agent.desire(2, 0, [name])
        await agent.running(0)
        assert await agent.substrate.session_host(name, server) is None

    assert address


async def test_only_victims_are_removed(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    async with edge.agent() as agent:
        agent.desire(1, 8)
        names = await agent.running(8)
        victims, others = names[1::3], sorted(set(names) - set(names[1::3]))

        agent.desire(2, 8 - len(victims), victims)

        assert await agent.running(len(others)) == others

        await edge.until_published("worker.stopped", *victims)

    assert Counter(fact.kind for fact in edge.facts) == {"worker.started": 8, "worker.stopped": len(victims)}
    assert all(pod.cost == 0 for pod in await edge.workers.pods())


async def test_a_victim_is_removed_despite_a_pending_and_an_unready_pod(edge: Edge) -> None:
    await edge.deploy_on_little_node()
    async with edge.agent() as agent:
        agent.desire(1, 3)
        names = await agent.running(3)
        unready, victim, busy = names
        agent.desire(2, 4)

        async def one_waits() -> bool:
            return any("Insufficient cpu" in worker.reason for worker in (await agent.workers() or {}).values())

        await until(one_waits, seconds=240, what="a pod without a node", every=0.05)
        await edge.workers.set_status(unready, "Running", ready=False)
        agent.desire(3, 3, [victim])

        async def victim_gone() -> bool:
            workers = await agent.workers() or {}
            return victim not in workers and len(workers) == 3 and workers[busy].phase == "running"

        await until(victim_gone, seconds=240, what="only the victim to be removed", every=0.05)
        assert {unready, busy} <= (await agent.workers() or {}).keys()
        await edge.until_published("worker.stopped", victim)
        await agent.applied(3)
    assert await edge.workers.replicas() == 3
    assert edge.fact_kinds(unready, busy) == {key: ["worker.started"] for key in (unready, busy)}


async def test_pending_pods_that_are_no_longer_desired_are_removed(edge: Edge) -> None:
    await edge.deploy_on_little_node()
    async with edge.agent() as agent:
        agent.desire(1, 6)

        async def three_wait() -> bool:
            phases = Counter(worker.phase for worker in (await agent.workers() or {}).values())
            return phases == {"running": 3, "booting": 3}

        await until(three_wait, seconds=240, what="three pods without a node", every=0.05)
        agent.desire(2, 3)
        names = await agent.running(3)
    assert edge.fact_kinds(*names) == {key: ["worker.started"] for key in names}


async def test_a_victim_that_is_desired_again_stays(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    async with edge.agent() as agent:
        agent.desire(1, 2)
        names = await agent.running(2)
        await edge.workers.kubectl("annotate", "pod", names[0], "controller.kubernetes.io/pod-deletion-cost=-1000")
        # The state left by an agent that was killed after it had marked a victim.
        agent.desire(2, 2)
        await until(lambda: _unmarked(edge), seconds=240, what="the mark to be removed", every=0.05)

        agent.desire(3, 1, [names[1]])

        assert await agent.running(1) == [names[0]]


async def _unmarked(edge: Edge) -> bool:
    return all(pod.cost == 0 for pod in await edge.workers.pods())


async def test_replicas_set_by_others_are_reset_and_the_lost_worker_is_reported(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    async with edge.agent() as agent:
        agent.desire(1, 3)
        names = await agent.running(3)
        await edge.workers.kubectl("scale", "deployment", f"slurmd-{SHAPE}", "--replicas=2")
        await until(lambda: _lost(edge), seconds=240, what="the lost worker to be reported")
        await agent.running(3)
    assert await edge.workers.replicas() == 3

    (lost,) = _lost(edge)
    assert lost in names


def _lost(edge: Edge) -> list[str]:
    return [fact.worker for fact in edge.facts if fact.kind == "worker.lost"]


async def test_a_failed_pod_is_reported_replaced_and_removed(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    async with edge.agent() as agent:
        agent.desire(1, 1)
        (name,) = await agent.running(1)
        await edge.workers.set_status(name, "Failed", ready=False)
        await edge.until_published("worker.failed", name)
        (successor,) = await agent.running(1)

    assert successor != name
    assert edge.fact_kinds(name) == {name: ["worker.started", "worker.failed"]}


async def test_a_misclassified_node_is_reported_once_per_pod(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    termination = {"exitCode": 78, "message": MISCLASSIFIED}
    async with edge.agent() as agent:
        agent.desire(1, 1)
        (name,) = await agent.running(1)
        for state in (
            {"state": {"terminated": termination}},
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": termination}},
        ):
            await edge.workers.set_status(name, "Running", ready=False, **state)
            restarted = "lastState" in state
            observed = partial(_is_misclassified, agent, name, restarted=restarted)
            await until(observed, seconds=240, what="the misclassification")

        await until(lambda: agent.misclassified, seconds=240, what="the fact")

        assert agent.misclassified == [
            MisclassifiedFact(
                node="big-0",
                shape=SHAPE,
                expected=MachineSize(cpus=4, memory_mib=14000),
                actual=MachineSize(cpus=2, memory_mib=7000),
            )
        ]
    async with edge.agent() as agent:
        await until(
            lambda: _is_misclassified(agent, name, restarted=True),
            seconds=240,
            what="the misclassification to be observed again",
        )
        await edge.workers.kubectl("delete", "pod", name, "--wait=true")

        await edge.until_published("worker.lost", name)

        assert agent.misclassified == [], "the last agent has published it"

    assert edge.fact_kinds(name) == {name: ["worker.started", "worker.lost"]}


async def _is_misclassified(agent: Agent, name: str, *, restarted: bool) -> bool:
    worker = (await agent.workers() or {}).get(name)
    if worker is None or not worker.reason.startswith("Misclassified: the machine has 2 CPUs"):
        return False
    (container,) = agent.substrate.pods()[SHAPE][name].status.container_statuses
    return (container.last_state is not None) == restarted


async def test_the_next_agent_reports_what_happened_in_between(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    async with edge.agent() as agent:
        agent.desire(2, 3)
        names = await agent.running(3)
        await edge.until_published("worker.started", *names)
    await edge.workers.kubectl("delete", "pod", names[0], "--wait=true")
    async with edge.agent() as agent:
        await agent.running(3)
        await edge.until_published("worker.lost", names[0])
        assert not agent.desire(1, 0), "older than the accepted state"
        await edge.until_published("worker.started", *(await agent.workers() or {}))

    events = Counter((fact.worker, fact.kind) for fact in edge.facts)

    assert set(events.values()) == {1}


async def test_a_shape_without_a_deployment_does_not_affect_others(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    async with edge.agent() as agent:
        agent.desire_all(1, {"memory-xs": (1, ()), SHAPE: (1, ()), "compute-xs": (0, ())})
        await agent.running(1)

        assert agent.control_loop.applied is None, "one worker is missing"

        await edge.deploy_on_big_node("memory-xs")
        await agent.running(1, "memory-xs")
        await agent.applied(1)


async def test_two_agents_work_in_two_namespaces(edge: Edge, plane: ControlPlane) -> None:
    await edge.deploy_on_big_node()
    other = Edge(plane, await new_namespace(plane), edge._folder.with_name("another"))
    await other.deploy_on_big_node()
    async with edge.agent() as first, other.agent() as second:
        first.desire(1, 1)
        second.desire(1, 2)
        await asyncio.gather(first.running(1), second.running(2))


async def test_a_worker_that_is_taken_back_while_the_agent_is_held_up_stays(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    async with edge.agent() as agent:
        agent.desire(1, 3)
        names = await agent.running(3)
        await agent.applied(1)
        kept, *victims = names

        async def scaler_takes_one_back() -> None:
            agent.publish(desired_state(3, {SHAPE: (1, victims)}))

        agent.held_up = scaler_takes_one_back
        agent.desire(2, 0, names)
        await agent.applied(3)

        assert await agent.running(1) == [kept]

    assert Counter(fact.kind for fact in edge.facts) == {"worker.started": 3, "worker.stopped": 2}


async def test_an_unregistered_worker_that_serves_while_the_agent_is_held_up_stays(edge: Edge) -> None:
    await edge.deploy_on_big_node()
    async with edge.agent() as agent:
        agent.desire(1, 1)
        [name] = await agent.running(1)
        await edge.workers.set_status(name, "Running", ready=False)
        await until(lambda: _has_phase(agent, name, "booting"), seconds=240, what="the booting worker", every=0.05)

        async def slurmd_serves() -> None:
            await edge.workers.set_status(name, "Running", ready=True)
            await until(lambda: _has_phase(agent, name, "running"), seconds=240, what="the running worker", every=0.05)

        agent.held_up = slurmd_serves
        # The ReplicaSet replaces a pod that is deleted by name.
        desired = desired_state(2, {SHAPE: (1, ())})
        (target,) = desired.targets or ()
        agent.offer(desired.model_copy(update={"targets": (target.model_copy(update={"unregistered": (name,)}),)}))
        await agent.applied(2)

        assert await agent.running(1) == [name]


async def _has_phase(agent: Agent, name: str, phase: str) -> bool:
    return (await agent.workers() or {})[name].phase == phase
