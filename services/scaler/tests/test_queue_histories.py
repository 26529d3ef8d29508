"""Simulated queues under all kinds of faults: no running job is lost, every job runs, and nothing is left over.

`queue_world.World` asserts these invariants in each step.
"""

import os
from random import Random
from typing import Any

from edge_model import BootFaults, EdgeBehaviour
from fleet_examples import WITH_GPUS, binding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_world import Faults, World
from slurm_model import Job

HISTORIES = int(os.environ.get("HISTORIES", "8"))
"""Number of simulated histories. `make test-histories` runs more."""

FAULTY_SECONDS = 150
MAX_SECONDS = 3000

policies = st.sampled_from(["family", "packing"])
some = st.sampled_from([0.0, 0.02, 0.2])
rarely = st.sampled_from([0.0, 0.01, 0.03])

any_jobs = st.lists(
    st.builds(
        Job,
        submitted=st.integers(0, 90),
        cpus=st.sampled_from([1, 1, 2, 3, 4, 8, 16, 32]),
        memory_mib=st.sampled_from([100, 2048, 4096, 10_000, 65_536, 200_000]),
        nodes=st.sampled_from([1, 1, 1, 1, 2, 3]),
        runs=st.integers(1, 40),
        cancelled=st.one_of(st.none(), st.none(), st.integers(0, 120)),
        limit=st.sampled_from([None, 60, 3600, 7 * 86400]),
        classed=st.booleans(),
        gpus=st.sampled_from([0, 0, 1, 2, 4]),
        gpu_type=st.sampled_from(["", "", "l4", "h100"]),
        features=st.sampled_from(["", "", "", "l4"]),
    ).filter(lambda job: (job.gpu_type, job.features) != ("h100", "l4")),
    min_size=1,
    max_size=25,
)
any_faults = st.builds(
    Faults,
    null_list=some,
    torn_snapshot=some,
    lost_snapshot=some,
    lost_heartbeat=st.sampled_from([0.0, 0.1, 0.8]),
    lost_desired=some,
    failed_call=some,
    resumed=rarely,
    lost_drains=rarely,
    held=some,
    crash=rarely,
    boots=st.builds(BootFaults, never=st.sampled_from([0.0, 0.1])),
    takeover=rarely,
)

many_short_jobs = st.lists(
    st.builds(
        Job, submitted=st.integers(0, 140), cpus=st.integers(1, 2), memory_mib=st.just(100), runs=st.integers(1, 4)
    ),
    min_size=20,
    max_size=60,
)
"""With these, workers are drained and needed again all the time."""
faulty_connection = st.builds(
    Faults,
    torn_snapshot=some,
    lost_snapshot=st.sampled_from([0.3, 0.6, 0.8]),
    lost_heartbeat=st.sampled_from([0.0, 0.1]),
    failed_call=st.sampled_from([0.0, 0.2, 0.6]),
    resumed=some,
    lost_drains=rarely,
    held=st.sampled_from([0.0, 0.2, 0.6]),
    takeover=rarely,
)


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, any_faults, st.integers(0, 2**32), st.integers(3, 12), st.sampled_from([0.0, 2.0, 10.0]), policies)
def test_the_invariants_hold_for_any_queue_under_any_faults(
    jobs: list[Job], faults: Faults, seed: int, max_workers: int, idle_seconds: float, name: str
) -> None:
    limits: dict[str, Any] = {"max_workers": max_workers, "boot_timeout_seconds": 25, "ghost_seconds": 30}
    policy = binding(WITH_GPUS, name=name, idle_seconds=idle_seconds, **limits)
    world = World(jobs, policy, Random(seed), faults)
    world.run(FAULTY_SECONDS, MAX_SECONDS)


@settings(max_examples=HISTORIES // 2, suppress_health_check=[HealthCheck.too_slow])
@given(many_short_jobs, faulty_connection, st.integers(0, 2**32), st.integers(2, 5))
def test_the_invariants_hold_while_workers_are_drained_and_needed_again(
    jobs: list[Job], faults: Faults, seed: int, max_workers: int
) -> None:
    policy = binding(idle_seconds=0, max_workers=max_workers, boot_timeout_seconds=25, ghost_seconds=30)
    world = World(jobs, policy, Random(seed), faults, EdgeBehaviour(boot_seconds=(1, 4)))
    world.run(FAULTY_SECONDS, MAX_SECONDS)


def test_the_simulation_buys_drains_undrains_and_removes_workers() -> None:
    """A simulation in which nothing of this happened would prove nothing."""
    random = Random(7)
    jobs = [Job(submitted=random.randint(0, 140), cpus=1, memory_mib=100, runs=3) for _ in range(60)]
    faults = Faults(lost_snapshot=0.3, failed_call=0.3, takeover=0.02)
    world = World(jobs, binding(idle_seconds=0, max_workers=4), random, faults)

    world.run(FAULTY_SECONDS, MAX_SECONDS)

    assert world.edge.peak > 1
    assert world.removed > 3
    assert world.slurm.undrained > 0
