"""Two agents of one cluster on a real API server: one acts, the other stands by."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp
import pytest
import quick_agent
from agent_process import REF, USERS, shared_dir, start_agent
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import WorkerFact
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_edge_agent.kubernetes.client.api import Collection, connected
from clusterra_edge_agent.kubernetes.client.errors import NotHolder
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL
from clusterra_edge_agent.kubernetes.election import record
from clusterra_edge_agent.kubernetes.election.lease import NAME, KubernetesLease, identity
from clusterra_edge_agent.kubernetes.election.record import HOLD_SECONDS, LEASE_SECONDS
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, until
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_runtime.nats import bus, rpc, topology
from clusterra_runtime.nats.client import Client
from kube_agent import SPEC, Agent, agent, shorten_lease
from kube_plane import account_without_rights, agent_environment
from kube_workers import SHAPE, Workers


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_lease(monkeypatch)


@pytest.fixture
async def workers(plane: ControlPlane, fake_nodes: None, namespace: str) -> Workers:
    workers = Workers(plane, namespace)
    await workers.deploy()
    return workers


async def until_held(agent: Agent) -> None:
    await until(lambda: agent.lease.held, seconds=60, what="the agent to hold the Lease", every=0.02)


async def holder(workers: Workers) -> str:
    return await workers.kubectl("get", "lease", NAME, "--output=jsonpath={.spec.holderIdentity}")


async def set_holder(workers: Workers, holder_identity: str) -> None:
    patch = json.dumps({"spec": {"holderIdentity": holder_identity}})
    await workers.kubectl("patch", "lease", NAME, "--type=merge", f"--patch={patch}")


@pytest.mark.usefixtures("short_lease")
async def test_the_standby_agent_takes_over_from_a_killed_holder_without_repeating_events(
    workers: Workers, tmp_path: Path
) -> None:
    kubeconfig, namespace = workers.kubernetes.kubeconfig, workers.namespace
    facts_of_first, facts_of_second = list[WorkerFact](), list[WorkerFact]()
    async with (
        agent(kubeconfig, namespace, tmp_path / "second", facts_of_second) as second,
        agent(kubeconfig, namespace, tmp_path / "first", facts_of_first) as first,
    ):
        await until(lambda: first.lease.held or second.lease.held, seconds=60, what="a holder")
        if second.lease.held:
            first, second = second, first
            facts_of_first, facts_of_second = facts_of_second, facts_of_first
        for each in (first, second):
            each.desire(1, 2)
        names = await first.running(2)
        await second.running(2)
        await until(lambda: second.lease.another_acts, seconds=60, what="the other agent to be observed")

        assert second.control_loop.applied is None
        assert not second.lease.may_report

        for each in (first, second):
            each.desire(2, 1, [names[0]])
        await first.running(1)
        await second.running(1)
        await first.applied(2)
        await until(
            lambda: any(fact.kind == "worker.stopped" for fact in facts_of_first),
            seconds=60,
            what="the end to be published",
        )

        assert first.lease.held
        assert not second.lease.held
        assert first.task is not None

        killed_at = time.monotonic()
        first.task.cancel()
        await until_held(second)
        print(f"the next one holds after {time.monotonic() - killed_at:.1f} s", file=sys.stderr)

        assert time.monotonic() - killed_at > record.LEASE_SECONDS - record.HOLD_SECONDS

        await second.applied(2)
        second.desire(3, 3)
        await second.running(3)

    assert {fact.kind for fact in facts_of_first} == {"worker.started", "worker.stopped"}
    assert {fact.kind for fact in facts_of_second} == {"worker.started"}, (
        "the end of the victim was the first agent's to report"
    )


async def test_a_released_lease_is_acquired_immediately(workers: Workers, tmp_path: Path) -> None:
    async with connected(workers.namespace, workers.kubernetes.kubeconfig) as api:
        taken: list[float] = []
        for name in ("first", "second", "third"):
            (tmp_path / name).mkdir()
            lease = KubernetesLease(api, identity(tmp_path / name))
            began = time.monotonic()
            running = asyncio.create_task(lease.run())
            await until(lambda lease=lease: lease.held, seconds=60, what=f"the {name} agent to hold the Lease")  # type: ignore[misc]
            taken.append(time.monotonic() - began)
            assert await holder(workers) == identity(tmp_path / name)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await lease.release()
            assert not lease.held
            assert await holder(workers) == ""
        assert max(taken) < LEASE_SECONDS

        transitions = await workers.kubectl("get", "lease", NAME, "--output=jsonpath={.spec.leaseTransitions}")
        assert transitions == "3"


async def test_a_killed_agent_reacquires_its_own_lease_immediately(workers: Workers, tmp_path: Path) -> None:
    facts: list[WorkerFact] = []
    async with agent(workers.kubernetes.kubeconfig, workers.namespace, tmp_path / "one", facts) as first:
        await until_held(first)
    began = time.monotonic()
    async with agent(workers.kubernetes.kubeconfig, workers.namespace, tmp_path / "one", facts) as again:
        await until_held(again)
        assert time.monotonic() - began < LEASE_SECONDS


@pytest.mark.usefixtures("short_lease")
async def test_a_holder_that_is_edited_out_stops_and_reacquires_the_lease(workers: Workers, tmp_path: Path) -> None:
    facts: list[WorkerFact] = []
    async with agent(workers.kubernetes.kubeconfig, workers.namespace, tmp_path / "one", facts) as one:
        one.desire(1, 1)
        await one.applied(1)
        await set_holder(workers, "somebody")
        await until(lambda: not one.lease.held, seconds=60, what="the agent to stop", every=0.02)
        edited_at = time.monotonic()
        await until(lambda: not one.lease.may_report, seconds=60, what="the agent to be silent", every=0.02)
        one.desire(2, 2)
        # Whatever was decided before is stopped as well, at each call.
        api = one.substrate._api

        with pytest.raises(NotHolder):
            await api.scale(f"slurmd-{SHAPE}", 2)

        (pod,), _ = await api.list(Collection.pods(workers.namespace, SHAPE_LABEL))
        with pytest.raises(NotHolder):
            await api.set_deletion_cost(pod, -1000)
        with pytest.raises(NotHolder):
            await api.delete(pod)
        assert await workers.replicas() == 1

        await until_held(one)
        assert time.monotonic() - edited_at > record.HOLD_SECONDS, "it did not wait for the other holder's expiry"

        await one.applied(2)
        assert await workers.replicas() == 2

        await workers.kubectl("delete", "lease", NAME)
        await until(lambda: _is_ours(workers, tmp_path / "one"), seconds=60, what="the Lease to be created again")
        await until_held(one)


async def _is_ours(workers: Workers, folder: Path) -> bool:
    found = await workers.kubectl("get", "leases", "--output=jsonpath={.items[*].spec.holderIdentity}")
    return found == identity(folder)


async def test_an_agent_without_permission_does_not_act(plane: ControlPlane, namespace: str) -> None:
    async with connected(namespace, await account_without_rights(plane, namespace)) as api:
        lease = KubernetesLease(api, "nobody")
        running = asyncio.create_task(lease.run())

        await until(lambda: lease.may_report, seconds=60, what="the first answer")

        assert not lease.held

        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await lease.release()


# As processes, with NATS

QUICK_AGENT = (quick_agent.__file__,)


class Member:
    """One of two agents of a cluster."""

    def __init__(self, process: Process, health_port: int) -> None:
        self.process = process
        self._health = f"http://127.0.0.1:{health_port}"

    async def ready(self) -> bool:
        try:
            async with aiohttp.ClientSession() as http, http.get(f"{self._health}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def holds_lease(self) -> bool:
        async with aiohttp.ClientSession() as http, http.get(f"{self._health}/metrics") as answer:
            return "\nclusterra_edge_lease_held 1.0\n" in await answer.text()


class Pair:
    """Two agents of one cluster, and the central side's view of them."""

    def __init__(self, nats: NatsServer, centre: Client, environment: Mapping[str, str], folder: Path) -> None:
        self.heartbeats: list[Heartbeat] = []
        self.running = AsyncExitStack()
        self._nats = nats
        self._centre = centre
        self._environment = environment
        self._folder = folder
        self._generation = 0

    async def start(self, name: str) -> Member:
        """Starts an agent with a shared folder of its own, in which a job's output is the agent's name."""
        folder, port = self._folder / name, free_port()
        (shared_dir(folder) / "job_1.out").write_text(name)
        environment = {**self._environment, "CLUSTERRA_HEALTH_PORT": str(port)}
        member = Member(await start_agent(self._nats, folder, environment, name=name, program=QUICK_AGENT), port)
        self.running.push_async_callback(member.process.stop)
        await until(member.ready, seconds=60, what=f"{name} to be ready", process=member.process)
        return member

    async def desire(self, replicas: int) -> int:
        self._generation += 1
        target = ShapeTarget(shape=SHAPE, worker=SPEC, replicas=replicas, victims=())
        desired = DesiredState(
            generation=self._generation, fence=1, snapshot_generation=1, decided_at=now(), targets=(target,)
        )
        await bus.publish_durable(self._centre, subjects.scale_desired(REF), desired, message_id=f"{self._generation}")
        return self._generation

    async def applied(self, generation: int) -> None:
        def reported() -> bool:
            return any(beat.applied is not None and beat.applied.generation == generation for beat in self.heartbeats)

        await until(reported, seconds=60, what=f"generation {generation} to be applied")

    async def next_heartbeats(self, number: int) -> list[Heartbeat]:
        first = len(self.heartbeats)
        await until(lambda: len(self.heartbeats) >= first + number, seconds=60, what="heartbeats")
        return self.heartbeats[first:]

    async def until_answering(self, name: str) -> None:
        """Waits until this agent answers log reads, and checks that no other one does."""

        async def output() -> str:
            read = ReadLog(job_id="1", uid=os.getuid())
            try:
                return (await rpc.call(self._centre, subjects.edge(REF, "log"), read, LogChunk)).data.decode()
            except rpc.RpcFailed:
                return ""

        async def answers() -> bool:
            return await output() == name

        await until(answers, seconds=60, what=f"{name} to answer", every=0.1)
        assert {await output() for _ in range(20)} == {name}

    async def take(self, _subject: Subject, heartbeat: Heartbeat) -> None:
        self.heartbeats.append(heartbeat)


@pytest.fixture
async def pair(plane: ControlPlane, workers: Workers, tmp_path: Path) -> AsyncIterator[Pair]:
    async with nats_server(tmp_path / "nats", users=USERS) as nats:
        centre = await bus.connect(nats.settings("centre"), "centre")
        await topology.apply(centre)
        pair = Pair(nats, centre, await agent_environment(plane, workers.namespace), tmp_path)
        await bus.subscribe(centre, subjects.heartbeat(REF), Heartbeat, pair.take)
        async with pair.running:
            yield pair
        await bus.close(centre)


async def test_one_of_two_agents_acts_and_reports_and_the_other_takes_over(pair: Pair) -> None:
    first = await pair.start("first")
    await pair.applied(await pair.desire(1))
    second = await pair.start("second")

    assert (await first.holds_lease(), await second.holds_lease()) == (True, False)

    await pair.until_answering("first")
    assert all(beat.applied is not None for beat in await pair.next_heartbeats(3)), "another agent reported"
    assert await first.process.stop(20) == 0

    began = time.monotonic()
    await until(
        second.holds_lease, seconds=60, what="the second agent to hold the Lease", every=0.05, process=second.process
    )
    seconds = time.monotonic() - began
    print(f"after an orderly end the next one holds within {seconds:.1f} s", file=sys.stderr)

    assert seconds < HOLD_SECONDS, "it waited although the Lease had been released"

    await pair.applied(await pair.desire(2))
    await pair.until_answering("second")
    third = await pair.start("third")
    second.process.kill()
    await second.process.wait()

    assert not await third.holds_lease()

    await pair.applied(await pair.desire(3))
    await pair.until_answering("third")
