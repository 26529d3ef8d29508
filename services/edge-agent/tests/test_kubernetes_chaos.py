"""Random failures on a real API server: no busy worker is ever deleted, and the desired state is finally reached."""

import asyncio
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from clusterra_contracts.events import WorkerFact
from clusterra_edge_agent.kubernetes.client.api import Collection, connected
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.client.resources import DELETION_COST, SHAPE_LABEL, Pod
from clusterra_edge_agent.kubernetes.workers.replicas import VICTIM_COST
from clusterra_edge_agent.kubernetes.workers.stale_cache import MAX_GUARD_SECONDS
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_lab.kube.fake_nodes import kwok_nodes
from clusterra_lab.kube.kubernetes import ControlPlane, KubectlFailed
from clusterra_lab.machine.process import until
from kube_agent import Agent, agent, desired_state
from kube_plane import plane_or_skip
from kube_unreliable import UnreliableApi, hold_up
from kube_workers import SHAPE, Workers

SEED = int(os.environ.get("CHAOS_SEED", "1"))
SEEDS = int(os.environ.get("CHAOS_SEEDS", "1"))
"""Number of runs, each with the next seed; `make test-chaos` plays 30."""
STEPS = int(os.environ.get("CHAOS_STEPS", "40"))
"""Number of steps of a run; `make test-chaos` plays 100."""
SCHEDULABLE_PODS = 8
"""Number of pods that fit the node. Further pods stay pending."""
MAX_DESIRED = 12
POLICY = Path(__file__).parents[3] / "k8s" / "edge" / "base" / "worker-policy.yaml"
NAMESPACE = "slurm"
"""The namespace in which the policy is in force."""


@pytest.fixture(scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    async with plane_or_skip(tmp_path_factory) as plane, kwok_nodes(plane, 1, cpus=SCHEDULABLE_PODS):
        await plane.kubectl("create", "namespace", NAMESPACE)
        await plane.kubectl("create", f"--filename={POLICY}")
        await in_force(Workers(plane, NAMESPACE))
        yield plane


async def in_force(workers: Workers) -> None:
    """Waits until the policy protects a worker."""
    await workers.kubectl("run", "probe", "--image=slurmd", f"--labels={SHAPE_LABEL}=probe")
    await workers.set_status("probe", "Running", ready=True)

    async def denied() -> bool:
        try:
            await workers.kubectl("delete", "pod", "probe", "--dry-run=server")
        except KubectlFailed as error:
            return "was not marked for deletion" in str(error)
        return False

    await until(denied, seconds=60, what="the policy to be in force", every=0.1)
    await workers.kubectl("annotate", "pod", "probe", f"{DELETION_COST}={VICTIM_COST}")
    await workers.kubectl("delete", "pod", "probe", "--force")


class Chaos:
    """A namespace, its agent, a scheduler that assigns jobs, and a scaler whose victims are drained idle workers."""

    def __init__(self, plane: ControlPlane, folder: Path, seed: int, generation: int) -> None:
        """`generation`: that of the last desired state of the run before, whose agent had the same folder."""
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.failures_over = False
        self.plane = plane
        self.workers = Workers(plane, NAMESPACE)
        self.facts: list[WorkerFact] = []
        self.busy: set[str] = set()
        self.named: set[str] = set()
        """Victims: they are drained and idle, and get no more jobs unless an operator resumes them."""
        self.stories: defaultdict[str, list[str]] = defaultdict(list)
        """What happened to each worker, each beginning with its time."""
        self.named_at: dict[str, float] = {}
        self.victim_periods: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        """From when to when workers were victims that were taken back: an operator had resumed them, and a job runs
        there now."""
        self.removals: list[float] = []
        self.foreign_edits: list[float] = []
        self.killed_busy: list[str] = []
        """The stories of busy workers that were deleted."""
        self.generation = generation + 1
        self.desired = 0
        self.nats = True
        self.agent: Agent
        self._folder = folder
        self._runs = AsyncExitStack()

    def happens(self, what: str, probability: float) -> bool:
        """Whether this failure occurs now. Counts it."""
        if self.failures_over or self.rng.random() >= probability:
            return False
        self.counts[what] += 1
        return True

    async def start_agent(self) -> None:
        """Ends the last run of the agent and starts the next."""
        await self._runs.aclose()
        self.agent = await self._runs.enter_async_context(
            agent(
                self.plane.kubeconfig,
                self.workers.namespace,
                self._folder,
                self.facts,
                substrate_of=lambda api, folder: KubernetesSubstrate(UnreliableApi(api, self), folder),
                connected_to_nats=lambda: self.nats,
            )
        )
        self.agent.held_up = partial(hold_up, self)
        self.publish_desired()

    async def stop_agent(self) -> None:
        """Ends the last run."""
        await self._runs.aclose()

    async def is_watched(self) -> bool:
        """Whether an agent observes everything that happens from now on."""
        task = self.agent.task
        if task is not None and task.done():
            await self.start_agent()
        return task is not None and not task.cancelling() and await self.agent.workers() is not None

    def publish_desired(self, *, pushed: bool = True) -> None:
        """Sets the desired state, as the scaler or the stored state does."""
        self.agent.publish(desired_state(self.generation, {SHAPE: (self.desired, self.named)}))
        if pushed:
            self.agent.desire(self.generation, self.desired, self.named)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Called for each change by the test's own reflector."""
        deleted = new is None or (new.terminating and not (old and old.terminating))
        pod = new or old
        assert pod is not None
        if old is None or new is None or old.cost != new.cost or old.terminating != new.terminating:
            self.tell(pod.name, f"cost {pod.cost}, terminating {pod.terminating}, in the API {new is not None}")
        if deleted and pod.name in self.busy:
            # The pod itself waits for the job, see `slurmd-pre-stop`.
            self.busy.discard(pod.name)
            if self.may_be_removed(pod):
                self.counts["taken back too late"] += 1
                self.desired = max(self.desired - 1, 0)
                self.generation += 1
                self.publish_desired()
            else:
                self.killed_busy.append(f"{pod.name}: {self.stories[pod.name]}, removals {self.removals[-5:]}")

    def tell(self, name: str, what: str) -> None:
        self.stories[name].append(f"{time.monotonic():.3f} {what}")

    def may_be_removed(self, pod: Pod) -> bool:
        """Whether the deletion of this busy worker was called for while it was a victim, or while it had the mark.

        Its controller may delete it much later than the agent called for that. Somebody else who lowers replicas can
        end only a victim whose mark the agent has not taken back yet, because it had not heard of that.
        """
        periods = self.victim_periods[pod.name]
        by_agent = any(named <= at <= back for named, back in periods for at in self.removals)
        by_others = pod.cost == VICTIM_COST and any(named <= at for named, _ in periods for at in self.foreign_edits)
        return by_agent or by_others

    def take_back(self) -> None:
        """An operator resumes a victim and a job starts there; the scaler takes it back, and the push may be lost."""
        active = {pod.name for pod in self.observed.objects.values() if pod.active}
        candidates = sorted(self.named & active)
        if not candidates or self.desired >= MAX_DESIRED:
            return
        name = self.rng.choice(candidates)
        self.counts["victim taken back"] += 1
        self.named.discard(name)
        self.busy.add(name)
        self.victim_periods[name].append((self.named_at[name], time.monotonic()))
        self.tell(name, f"taken back in generation {self.generation + 1}")
        self.desired += 1
        self.generation += 1
        self.publish_desired(pushed=self.rng.random() < 0.5)

    def decide(self, change: int) -> None:
        """Desires more workers, or names some idle ones as victims."""
        serving = [pod.name for pod in self.observed.objects.values() if pod.active and pod.ready]
        if change > 0:
            self.desired = min(self.desired + change, MAX_DESIRED)
        else:
            idle = sorted(set(serving) - self.busy - self.named)[:-change]
            self.named |= set(idle)
            self.named_at |= dict.fromkeys(idle, time.monotonic())
            for name in idle:
                self.tell(name, f"a victim in generation {self.generation + 1}")
            self.desired = max(self.desired - len(idle), 0)
        self.generation += 1
        self.publish_desired()

    observed: Reflector[Pod]

    async def step(self) -> None:
        """Does one random step."""
        serving = sorted(pod.name for pod in self.observed.objects.values() if pod.active and pod.ready)
        free = [name for name in serving if name not in self.busy | self.named]
        match self.rng.choices(
            ("begin", "end", "up", "down", "back", "stale", "foreign", "api", "nats", "restart", "wait"),
            (24, 14, 14, 18, 12, 5, 4, 0.6, 3, 3, 12),
        )[0]:
            case "begin" if free:
                self.busy.add(name := self.rng.choice(free))
                self.tell(name, "a job begins")
            case "end" if self.busy:
                self.busy.remove(self.rng.choice(sorted(self.busy)))
            case "up":
                self.decide(self.rng.randint(1, 4))
            case "down":
                self.decide(-self.rng.randint(1, 3))
            case "back":
                self.take_back()
            case "stale":
                self.counts["stale state"] += 1
                self.agent.desire(max(self.generation - self.rng.randint(1, 5), 1), 0, serving)
            case "foreign":
                self.counts["foreign edit"] += 1
                self.foreign_edits.append(time.monotonic())
                replicas = max(self.desired + self.rng.randint(-3, 3), 0)
                await self.workers.kubectl("scale", "deployment", f"slurmd-{SHAPE}", f"--replicas={replicas}")
            case "api":
                self.counts["API server killed"] += 1
                # An agent that was away the whole time cannot know of pods that their controller missed.
                await until(self.is_watched, seconds=60, what="an agent that observes the outage")
                await self.plane.kill_api_server()
                await self.plane.start_api_server()
            case "nats":
                self.counts["NATS lost"] += 1
                self.nats = False
                await asyncio.sleep(0.1)
                self.nats = True
                self.publish_desired()
            case "restart":
                await self.start_agent()
            case _:
                await asyncio.sleep(self.rng.uniform(0.01, 0.2))
        if self.agent.task is not None and self.agent.task.done():
            await self.start_agent()
        await asyncio.sleep(0)


@dataclass
class Series:
    """What the runs share: an agent with another folder would have to wait until the Lease expires."""

    folder: Path
    generation: int = 0
    """That of the last desired state."""


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    return Series(tmp_path_factory.mktemp("chaos") / "agent")


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
async def test_no_busy_worker_is_deleted_and_the_desired_state_is_reached(
    plane: ControlPlane, series: Series, seed: int
) -> None:
    workers = Workers(plane, NAMESPACE)
    one_cpu = {"name": "slurmd", "image": "slurmd", "resources": {"requests": {"cpu": "1"}}}
    await workers.deploy(containers=[one_cpu])
    chaos = Chaos(plane, series.folder, seed, series.generation)
    try:
        await play(chaos, seed)
    finally:
        series.generation = chaos.generation
    await workers.kubectl("delete", "deployments", "--all", "--cascade=foreground")


async def is_empty(workers: Workers) -> bool:
    return not await workers.pods()


async def play(chaos: Chaos, seed: int) -> None:
    """Plays one run and prints the counts of its troubles and facts."""
    async with connected(NAMESPACE, chaos.plane.kubeconfig) as api:
        chaos.observed = Reflector(api, Collection.pods(NAMESPACE, SHAPE_LABEL), chaos.pod_changed, lambda: None)
        observing = asyncio.create_task(chaos.observed.run())
        try:
            await chaos.start_agent()
            for _ in range(STEPS):
                await chaos.step()
                assert not chaos.killed_busy
            quiet_at = time.monotonic()
            await reach_desired_state(chaos)
            settled_seconds = time.monotonic() - quiet_at
            await retire_all(chaos)
        finally:
            await chaos.stop_agent()
            observing.cancel()
            with suppress(asyncio.CancelledError):
                await observing
    events = Counter((fact.worker, fact.kind) for fact in chaos.facts)
    kinds = Counter[str](fact.kind for fact in chaos.facts)

    print(
        f"seed {seed}, {STEPS} steps: {dict(chaos.counts)}; facts: {dict(kinds)}; "
        f"as desired {settled_seconds:.1f} s after the last failure",
        file=sys.stderr,
    )

    assert not chaos.killed_busy
    assert set(events.values()) == {1}, "an event was published twice"
    assert not kinds["worker.lost"], "a worker was lost that was no victim"
    assert not kinds["worker.failed"]


async def reach_desired_state(chaos: Chaos) -> None:
    """Ends all failures and waits: all victims are removed, then the scaler names the surplus from foreign edits."""
    chaos.failures_over = True
    await chaos.start_agent()

    def active() -> set[str]:
        return {pod.name for pod in chaos.observed.objects.values() if pod.active}

    def quiet() -> bool:
        return not active() & chaos.named and len(active()) >= chaos.desired

    try:
        # The time that the controllers may need for their lists and that the agent waits for them, plus a minute for a
        # ReplicaSet's own pauses. Less than the five minutes that its controller waits for a pod that it will never
        # see.
        seconds = MAX_GUARD_SECONDS + 60
        await until(quiet, seconds=seconds, what="the victims to be removed and the others to be created")
    except TimeoutError as error:
        there = {pod.name for pod in await chaos.workers.pods()}
        raise AssertionError(
            f"{error}: {chaos.desired} workers are desired, the watch shows {active()}, the API server {there}"
        ) from error
    await until(lambda: no_surplus(chaos), seconds=60, what="as many workers as desired", every=0.2)


async def retire_all(chaos: Chaos) -> None:
    """Ends all jobs and names all workers: the Deployment cannot be deleted before."""
    chaos.busy.clear()
    chaos.named |= {pod.name for pod in await chaos.workers.pods()}
    chaos.desired = 0
    chaos.generation += 1
    chaos.publish_desired()
    await until(partial(is_empty, chaos.workers), seconds=120, what="the end of the workers", every=0.2)


async def no_surplus(chaos: Chaos) -> bool:
    """Names surplus workers as victims. Returns whether everything is as desired."""
    active = [pod for pod in chaos.observed.objects.values() if pod.active]
    surplus = len(active) - chaos.desired
    # Pods that have not started are removed without being named, and victims need a while.
    if surplus > 0 and all(pod.started and pod.name not in chaos.named for pod in active):
        idle = [pod.name for pod in active if pod.ready and pod.name not in chaos.busy | chaos.named]
        if not idle and chaos.busy:
            chaos.busy.pop()
        chaos.named |= set(idle[:surplus])
        chaos.generation += 1
        chaos.publish_desired()
    # A watch lags behind, so its state counts only if a list agrees.
    pods = {pod.name for pod in await chaos.workers.pods()}
    return pods == chaos.observed.objects.keys() and len(pods) == await chaos.workers.replicas() == chaos.desired
