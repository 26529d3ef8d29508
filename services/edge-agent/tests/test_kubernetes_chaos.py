"""Random trouble on a real API server: whatever happens, no busy worker is deleted, and all ends as desired."""

import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.events import WorkerFact
from clusterra_edge_agent.kubernetes.client.api import Api, Collection, connected
from clusterra_edge_agent.kubernetes.client.errors import Throttled, Unavailable
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.client.resources import DELETION_COST, SHAPE_LABEL, Pod, Scale
from clusterra_edge_agent.kubernetes.workers.replicas import VICTIM_COST
from clusterra_edge_agent.kubernetes.workers.stale_cache import LONGEST_CALM_SECONDS
from clusterra_lab.kube.fake_nodes import kwok_nodes
from clusterra_lab.kube.kubernetes import ControlPlane, KubectlFailed
from clusterra_lab.machine.process import until
from kube_agent import Agent, agent
from kube_plane import plane_or_skip
from kube_workers import SHAPE, Workers

SEED = int(os.environ.get("CHAOS_SEED", "1"))
STEPS = int(os.environ.get("CHAOS_STEPS", "200"))
"""How many there are; `make test-chaos` goes 500."""
ROOM = 8
"""Pods that find a node; more wait for one."""
MOST = 12
POLICY = Path(__file__).parents[3] / "k8s" / "edge" / "base" / "worker-policy.yaml"
NAMESPACE = "slurm"
"""Where the policy is in force."""


@pytest.fixture(scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    async with plane_or_skip(tmp_path_factory) as plane, kwok_nodes(plane, 1, cpus=ROOM):
        await plane.kubectl("create", "namespace", NAMESPACE)
        await plane.kubectl("create", f"--filename={POLICY}")
        await in_force(Workers(plane, NAMESPACE))
        yield plane


async def in_force(workers: Workers) -> None:
    """Wait until the policy keeps a worker."""
    await workers.kubectl("run", "probe", "--image=slurmd", f"--labels={SHAPE_LABEL}=probe")
    await workers.set_status("probe", "Running", ready=True)

    async def refused() -> bool:
        try:
            await workers.kubectl("delete", "pod", "probe", "--dry-run=server")
        except KubectlFailed as error:
            return "was not marked for deletion" in str(error)
        return False

    await until(refused, seconds=60, what="the policy to be in force", every=0.1)
    await workers.kubectl("annotate", "pod", "probe", f"{DELETION_COST}={VICTIM_COST}")
    await workers.kubectl("delete", "pod", "probe", "--force")


class Trouble(Api):
    """Calls are throttled, their replies are lost, and before and after each its caller may be killed."""

    def __init__(self, api: Api, chaos: "Chaos") -> None:
        super().__init__(api._client, api.namespace, api.leadership)
        self._chaos = chaos

    async def scale(self, name: str, replicas: int, **options: Any) -> Scale:
        await self._before()
        return await self._after(await super().scale(name, replicas, **options))

    async def set_deletion_cost(self, pod: Pod, cost: int) -> Pod:
        await self._before()
        return await self._after(await super().set_deletion_cost(pod, cost))

    async def delete(self, pod: Pod) -> Pod:
        await self._before()
        return await self._after(await super().delete(pod))

    async def _before(self) -> None:
        if self._chaos.happens("throttled", 0.03):
            raise Throttled("too many requests", retry_after_seconds=0.05)
        await self._maybe_killed()

    async def _after[A](self, answer: A) -> A:
        await self._maybe_killed()
        if self._chaos.happens("reply lost", 0.05):
            raise Unavailable("the connection broke")
        return answer

    async def _maybe_killed(self) -> None:
        task = self._chaos.agent.task
        if task is not None and self._chaos.happens("agent killed", 0.05):
            task.cancel()
            await asyncio.sleep(0)


class Chaos:
    """A namespace, its agent, a scheduler that gives workers jobs, and a scaler that only names drained idle ones."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.rng = random.Random(SEED)
        self.counts: Counter[str] = Counter()
        self.calm = False
        self.plane = plane
        self.workers = Workers(plane, NAMESPACE)
        self.facts: list[WorkerFact] = []
        self.busy: set[str] = set()
        self.named: set[str] = set()
        """Drained, idle since, and so victims for good: none of them is given a job again."""
        self.killed_busy: list[str] = []
        self.generation = 1
        self.desired = 0
        self.nats = True
        self.agent: Agent
        self._folder = folder
        self._runs = AsyncExitStack()

    def happens(self, what: str, probability: float) -> bool:
        """Whether this trouble comes now; it is counted."""
        if self.calm or self.rng.random() >= probability:
            return False
        self.counts[what] += 1
        return True

    async def start_agent(self) -> None:
        """The next run, after the end of the last one."""
        await self._runs.aclose()
        self.agent = await self._runs.enter_async_context(
            agent(
                self.plane.kubeconfig,
                self.workers.namespace,
                self._folder,
                self.facts,
                through=lambda api: Trouble(api, self),
                connected_to_nats=lambda: self.nats,
            )
        )
        self.tell()

    async def stop_agent(self) -> None:
        """End the last run."""
        await self._runs.aclose()

    async def watches(self) -> bool:
        """Whether there is an agent that sees all that happens from now on."""
        task = self.agent.task
        if task is not None and task.done():
            await self.start_agent()
        return task is not None and not task.cancelling() and await self.agent.workers() is not None

    def tell(self) -> None:
        """Publish what is desired, as the scaler or the stored state does."""
        self.agent.desire(self.generation, self.desired, self.named)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """What an observer of its own sees."""
        gone = new is None or (new.terminating and not (old and old.terminating))
        pod = new or old
        assert pod is not None
        if gone and pod.name in self.busy:
            self.killed_busy.append(pod.name)

    def decide(self, change: int) -> None:
        """More workers, or some idle ones named."""
        serving = [pod.name for pod in self.observed.objects.values() if pod.active and pod.ready]
        if change > 0:
            self.desired = min(self.desired + change, MOST)
        else:
            idle = sorted(set(serving) - self.busy - self.named)[:-change]
            self.named |= set(idle)
            self.desired = max(self.desired - len(idle), 0)
        self.generation += 1
        self.tell()

    observed: Reflector[Pod]

    async def step(self) -> None:
        """One random thing."""
        serving = sorted(pod.name for pod in self.observed.objects.values() if pod.active and pod.ready)
        free = [name for name in serving if name not in self.busy | self.named]
        match self.rng.choices(
            ("begin", "end", "up", "down", "stale", "foreign", "api", "nats", "restart", "wait"),
            (24, 14, 14, 18, 5, 4, 0.6, 3, 3, 12),
        )[0]:
            case "begin" if free:
                self.busy.add(self.rng.choice(free))
            case "end" if self.busy:
                self.busy.remove(self.rng.choice(sorted(self.busy)))
            case "up":
                self.decide(self.rng.randint(1, 4))
            case "down":
                self.decide(-self.rng.randint(1, 3))
            case "stale":
                self.counts["stale state"] += 1
                self.agent.desire(max(self.generation - self.rng.randint(1, 5), 1), 0, serving)
            case "foreign":
                self.counts["foreign edit"] += 1
                replicas = max(self.desired + self.rng.randint(-3, 3), 0)
                await self.workers.kubectl("scale", "deployment", f"slurmd-{SHAPE}", f"--replicas={replicas}")
            case "api":
                self.counts["API server killed"] += 1
                # An agent that was away all the while cannot know that there may be pods which their controller missed.
                await until(self.watches, seconds=60, what="an agent that sees the API server go")
                await self.plane.kill_api_server()
                await self.plane.start_api_server()
            case "nats":
                self.counts["NATS lost"] += 1
                self.nats = False
                await asyncio.sleep(0.1)
                self.nats = True
                self.tell()
            case "restart":
                await self.start_agent()
            case _:
                await asyncio.sleep(self.rng.uniform(0.01, 0.2))
        if self.agent.task is not None and self.agent.task.done():
            await self.start_agent()
        await asyncio.sleep(0)


async def test_no_busy_worker_is_deleted_and_all_ends_as_desired(plane: ControlPlane, tmp_path: Path) -> None:
    chaos = Chaos(plane, tmp_path / "agent")
    one_cpu = {"name": "slurmd", "image": "slurmd", "resources": {"requests": {"cpu": "1"}}}
    await chaos.workers.deploy(containers=[one_cpu])
    async with connected(NAMESPACE, plane.kubeconfig) as api:
        chaos.observed = Reflector(api, Collection.pods(NAMESPACE, SHAPE_LABEL), chaos.pod_changed, lambda: None)
        observing = asyncio.create_task(chaos.observed.run())
        try:
            await chaos.start_agent()
            for _ in range(STEPS):
                await chaos.step()
                assert not chaos.killed_busy
            quiet_at = time.monotonic()
            await settled(chaos)
            settled_seconds = time.monotonic() - quiet_at
        finally:
            await chaos.stop_agent()
            observing.cancel()
            with suppress(asyncio.CancelledError):
                await observing
    told = Counter((fact.worker, fact.kind) for fact in chaos.facts)
    kinds = Counter(fact.kind for fact in chaos.facts)
    print(
        f"seed {SEED}, {STEPS} steps: {dict(chaos.counts)}; facts: {dict(kinds)}; "
        f"as desired {settled_seconds:.1f} s after the last trouble",
        file=sys.stderr,
    )
    assert not chaos.killed_busy
    assert set(told.values()) == {1}, "a fact was told twice"
    assert not kinds["worker.lost"], "a worker went that nobody had named"
    assert not kinds["worker.failed"]


async def settled(chaos: Chaos) -> None:
    """No more trouble: all named go, then the scaler names what is left over from others' edits."""
    chaos.calm = True
    await chaos.start_agent()

    def active() -> set[str]:
        return {pod.name for pod in chaos.observed.objects.values() if pod.active}

    def quiet() -> bool:
        return not active() & chaos.named and len(active()) >= chaos.desired

    try:
        # As long as the controllers may need for their lists and the agent waits for them, and then a minute for a
        # ReplicaSet's own pauses. Short of the five that its controller waits for a pod that it is never to see.
        seconds = LONGEST_CALM_SECONDS + 60
        await until(quiet, seconds=seconds, what="the named workers to go and the others to be made")
    except TimeoutError as error:
        there = {pod.name for pod in await chaos.workers.pods()}
        raise AssertionError(f"{error}: {chaos.desired} are desired, {active()} seen, {there} there") from error
    await until(lambda: no_surplus(chaos), seconds=60, what="as many workers as desired", every=0.2)


async def no_surplus(chaos: Chaos) -> bool:
    """Name what is left over; whether everything is as desired."""
    active = [pod for pod in chaos.observed.objects.values() if pod.active]
    surplus = len(active) - chaos.desired
    if surplus > 0:
        idle = [pod.name for pod in active if pod.ready and pod.name not in chaos.busy | chaos.named]
        if not idle and chaos.busy:
            chaos.busy.pop()
        chaos.named |= set(idle[:surplus])
        chaos.generation += 1
        chaos.tell()
    # A watch lags behind: it counts only where a list says the same.
    pods = {pod.name for pod in await chaos.workers.pods()}
    return pods == chaos.observed.objects.keys() and len(pods) == await chaos.workers.replicas() == chaos.desired
