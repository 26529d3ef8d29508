"""Random histories of arrivals: the fleet does not oscillate, and keeps its drain budget and its warm pool."""

import os
from random import Random

from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm_nodes import Drain
from fleet_examples import binding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_world import Faults, World
from slurm_model import Job

HISTORIES = int(os.environ.get("HISTORIES", "8")) // 4
"""`make test-histories` plays more. Each of these spans a long time."""

LONG_ENOUGH = 3000
SETTLED_SECONDS = 200
UNCHANGED_SECONDS = 100

policies = st.sampled_from(["packing", "packing", "family"])
sizes = {"cpus": st.sampled_from([1, 1, 2, 4, 8, 32]), "memory_mib": st.sampled_from([100, 2048, 10_000, 65_536])}
any_jobs = st.lists(
    st.builds(
        Job,
        submitted=st.one_of(st.integers(0, 60), st.integers(0, 300)),
        runs=st.sampled_from([1, 2, 10, 40]),
        nodes=st.sampled_from([1, 1, 1, 2]),
        limit=st.sampled_from([None, 60, 3600]),
        **sizes,
    ),
    min_size=1,
    max_size=20,
)
endless_jobs = st.lists(
    st.builds(Job, submitted=st.integers(0, 30), runs=st.just(100_000), **sizes), min_size=1, max_size=15
)
warm_pools = st.dictionaries(st.sampled_from(["compute-xs", "general-small", "memory-large"]), st.integers(0, 3))
trouble = st.builds(
    Faults,
    torn_snapshot=st.sampled_from([0.0, 0.2]),
    lost_snapshot=st.sampled_from([0.0, 0.3]),
    failed_call=st.sampled_from([0.0, 0.3]),
    takeover=st.sampled_from([0.0, 0.0, 0.01]),
)


class RecordingWorld(World):
    """Records the drains and purchases of every decision."""

    def __init__(self, jobs: list[Job], policy: ClusterBinding, seed: int, faults: Faults | None = None) -> None:
        super().__init__(jobs, policy, Random(seed), faults or Faults())
        self.released: list[tuple[str, int, float]] = []
        """Shape, second of the drain, and the worker's keep-alive time in seconds."""
        self.drained_at: dict[str, int] = {}
        """By worker, when its drain began, for drains of the last minute."""
        self.bought_again = 0
        self.max_drains_per_minute = 0
        self.unchanged_since = 0

    def _decide(self, snapshot: QueueSnapshot) -> None:
        before = self.state
        super()._decide(snapshot)
        decision = self.last_decision
        assert decision is not None
        if decision.actions or decision.changes or decision.state.targets != before.targets:
            self.unchanged_since = self.second
        if decision.plan is not None:
            for shape, count in decision.plan.new.items():
                if count > decision.plan.warm.get(shape, 0):
                    self._record_purchase(shape, decision.plan.jobs[shape])
        for action in decision.actions:
            if isinstance(action, Drain) and action.reason.startswith("idle"):
                self._record_drain(action.node)
        self.drained_at = {name: second for name, second in self.drained_at.items() if self.second - second < 60}
        self.max_drains_per_minute = max(self.max_drains_per_minute, len(self.drained_at))

    def _record_drain(self, name: str) -> None:
        if name not in self.drained_at:
            pod = self.edge.pods[name]
            self.released.append((pod.shape, self.second, self._keep_alive_seconds(name)))
            self.drained_at[name] = self.second

    def _keep_alive_seconds(self, name: str) -> float:
        if self.binding.policy.name == "family":
            return self.binding.policy.idle_seconds
        return self._observation_history.idle_gaps.idle[name].keep_seconds

    def _record_purchase(self, shape: str, job_ids: tuple[str, ...]) -> None:
        for released, second, keep_seconds in self.released:
            if released == shape and self.second - second <= keep_seconds:
                self.bought_again += 1
                later = [job for job in self.slurm.jobs if job.job_id in job_ids and job.submitted >= second]
                assert later, f"{shape} is bought again {self.second - second} s after a release, for older jobs"

    def step(self, seconds: int) -> None:
        for _ in range(seconds):
            self._step()


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, policies, st.sampled_from([0.0, 20.0, 150.0]), st.integers(2, 12), st.integers(0, 2**32))
def test_a_shape_is_bought_again_soon_after_a_release_only_for_new_jobs(
    jobs: list[Job], policy: str, idle_seconds: float, max_workers: int, seed: int
) -> None:
    world = RecordingWorld(jobs, binding(name=policy, idle_seconds=idle_seconds, max_workers=max_workers), seed)
    world.run(0, LONG_ENOUGH)


@settings(max_examples=HISTORIES // 2, suppress_health_check=[HealthCheck.too_slow])
@given(endless_jobs, policies, warm_pools, st.integers(1, 12), st.integers(0, 2**32))
def test_at_constant_demand_the_fleet_stays_unchanged(
    jobs: list[Job], policy: str, warm: dict[str, int], max_workers: int, seed: int
) -> None:
    world = RecordingWorld(jobs, binding(name=policy, warm=warm, idle_seconds=30, max_workers=max_workers), seed)
    world.step(SETTLED_SECONDS + UNCHANGED_SECONDS)
    assert world.unchanged_since <= SETTLED_SECONDS
    standing = [pod.shape for pod in world.edge.alive]
    if len(standing) < max_workers:
        assert all(standing.count(shape) >= count for shape, count in warm.items())


@settings(max_examples=HISTORIES // 2, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, policies, trouble, st.integers(1, 4), st.integers(0, 2**32))
def test_drains_stay_within_the_drain_budget(
    jobs: list[Job], policy: str, faults: Faults, budget: int, seed: int
) -> None:
    bound = binding(name=policy, idle_seconds=5, moves_per_minute=budget)
    world = RecordingWorld(jobs, bound, seed, faults)
    world.run(300, LONG_ENOUGH)
    assert world.max_drains_per_minute <= budget


@settings(max_examples=max(1, HISTORIES // 4), suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, policies, warm_pools, st.integers(0, 2**32))
def test_the_warm_pool_stands_until_the_cluster_is_paused(
    jobs: list[Job], policy: str, warm: dict[str, int], seed: int
) -> None:
    world = RecordingWorld(jobs, binding(name=policy, warm=warm, idle_seconds=10, max_workers=40), seed)
    world.step(60)
    for _ in range(350):
        world.step(1)
        registered = [node for node in world.slurm.list_nodes() if not node.draining]
        for shape, count in warm.items():
            assert sum(shape in node.features for node in registered) >= count
    world.binding = paused(world.binding)
    world.run(0, LONG_ENOUGH)


def paused(bound: ClusterBinding) -> ClusterBinding:
    return bound.model_copy(update={"state": "paused"})


@settings(max_examples=HISTORIES // 2, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, policies, st.sampled_from([0.01, 0.03]), st.sampled_from([0.0, 0.3]), st.integers(0, 2**32))
def test_no_worker_is_drained_as_idle_while_the_proxy_is_silent(
    jobs: list[Job], policy: str, silence: float, lost: float, seed: int
) -> None:
    faults = Faults(silence=silence, lost_snapshot=lost)
    world = RecordingWorld(jobs, binding(name=policy, idle_seconds=5), seed, faults)
    world.run(600, LONG_ENOUGH)


def test_the_proxy_does_fall_silent() -> None:
    """Otherwise the property above would hold vacuously."""
    jobs = [Job(submitted=second, cpus=2, memory_mib=100, runs=20) for second in range(0, 300, 45)]
    world = RecordingWorld(jobs, binding(name="packing", idle_seconds=5), 7, Faults(silence=0.02))
    world.run(600, LONG_ENOUGH)
    assert world.stale_decisions > 20


def test_the_model_does_release_and_buy_again() -> None:
    """Otherwise the properties above would hold vacuously."""
    jobs = [Job(submitted=second, cpus=2, memory_mib=100, runs=2) for second in range(0, 900, 45)]
    world = RecordingWorld(jobs, binding(name="packing", idle_seconds=30), 7)
    world.run(0, LONG_ENOUGH)
    assert world.bought_again > 3
    assert world.max_drains_per_minute > 0


def test_workers_that_are_used_again_are_kept_after_a_while() -> None:
    jobs = [Job(submitted=second, cpus=2, memory_mib=100, runs=2) for second in range(0, 1500, 45)]
    world = RecordingWorld(jobs, binding(name="packing", idle_seconds=150), 7)
    world.run(0, LONG_ENOUGH)
    assert world.edge.started == 1
    assert 40 < world.state.keep_seconds["compute-xs"] < 60
