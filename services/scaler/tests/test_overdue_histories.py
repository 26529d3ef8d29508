"""Simulated workers that never register, or register at the moment in which the scaler gives them up.

The edge ends none of them by itself. `queue_world.World` asserts that no worker is removed under a running job, that
all jobs run, that no worker is left in the end, and that the limits hold.
"""

import os
from random import Random

from edge_model import BootFaults, EdgeBehaviour
from fleet_examples import binding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_world import Faults, World
from slurm_model import Job

HISTORIES = int(os.environ.get("HISTORIES", "8"))
"""Number of simulated histories. `make test-histories` runs more."""

FAULTY_SECONDS = 200
MAX_SECONDS = 3000
BOOT_TIMEOUT_SECONDS = 25

often = st.sampled_from([0.0, 0.1, 0.5])
some = st.sampled_from([0.0, 0.02, 0.3])
any_jobs = st.lists(
    st.builds(
        Job,
        submitted=st.integers(0, 120),
        cpus=st.sampled_from([1, 1, 2, 8]),
        memory_mib=st.sampled_from([100, 2048, 10_000]),
        nodes=st.sampled_from([1, 1, 1, 2]),
        runs=st.integers(1, 40),
    ),
    min_size=1,
    max_size=15,
)
bad_boots = st.builds(BootFaults, never=often, late=often, deaf=often)
any_faults = st.builds(
    Faults,
    null_list=some,
    torn_snapshot=some,
    lost_snapshot=some,
    lost_heartbeat=st.sampled_from([0.0, 0.1, 0.8]),
    lost_desired=some,
    late_desired=st.sampled_from([0.0, 0.3, 0.9]),
    failed_call=some,
    crash=st.sampled_from([0.0, 0.01]),
    takeover=st.sampled_from([0.0, 0.01]),
    boots=bad_boots,
)


def world(
    jobs: list[Job],
    faults: Faults,
    seed: int,
    max_workers: int,
    boot_seconds: tuple[int, int] = (1, 15),
    boot_p99_seconds: float | None = None,
) -> World:
    policy = binding(
        idle_seconds=2, max_workers=max_workers, boot_timeout_seconds=BOOT_TIMEOUT_SECONDS, ghost_seconds=30
    )
    edge = EdgeBehaviour(boot_seconds=boot_seconds, ends_boots=False)
    return World(jobs, policy, Random(seed), faults, edge, boot_p99_seconds)


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, any_faults, st.integers(0, 2**32), st.integers(2, 8))
def test_every_overdue_worker_is_removed_and_no_job_is_lost(
    jobs: list[Job], faults: Faults, seed: int, max_workers: int
) -> None:
    history = world(jobs, faults, seed, max_workers)

    history.run(FAULTY_SECONDS, MAX_SECONDS)

    # Each worker is ordered, named, reinstated at most once, drained and forgotten. Arriving jobs cause more decisions.
    decisions = history.state.generation - history.takeovers
    assert decisions <= 8 * (history.edge.started + len(jobs)), (
        f"{decisions} decisions for {history.edge.started} workers"
    )


@settings(max_examples=HISTORIES // 4, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, st.integers(0, 2**32))
def test_workers_known_to_boot_slowly_are_not_removed(jobs: list[Job], seed: int) -> None:
    history = world(jobs, Faults(), seed, 8, boot_seconds=(26, 40), boot_p99_seconds=30.0)

    history.run(0, MAX_SECONDS)

    assert history.edge.unregistered_removed == 0


@settings(max_examples=HISTORIES // 8, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, st.integers(0, 2**32))
def test_workers_not_known_to_boot_slowly_get_more_time_in_the_end(jobs: list[Job], seed: int) -> None:
    """Otherwise they would all be given up for ever."""
    world(jobs, Faults(), seed, 8, boot_seconds=(60, 80)).run(0, MAX_SECONDS)


def test_the_invariants_hold_if_workers_register_during_their_removal() -> None:
    for seed in range(HISTORIES):
        random = Random(seed)
        jobs = [Job(submitted=random.randint(0, 150), cpus=2, memory_mib=100, runs=30) for _ in range(20)]
        faults = Faults(late_desired=0.9, boots=BootFaults(late=0.9, late_seconds=(25, 34)))
        world(jobs, faults, seed, 8).run(FAULTY_SECONDS, MAX_SECONDS)


def test_the_simulation_has_overdue_workers() -> None:
    random = Random(3)
    jobs = [Job(submitted=random.randint(0, 100), cpus=1, memory_mib=100, runs=3) for _ in range(20)]
    history = world(jobs, Faults(boots=BootFaults(never=0.3, late=0.3, deaf=0.3)), 7, 6)

    history.run(FAULTY_SECONDS, MAX_SECONDS)

    assert history.edge.unregistered_removed > 1
