"""Histories in which workers never register, or do so in the moment in which they are given up.

The edge ends none of them by itself. `queue_world.World` asserts that no worker is removed under a running job, that
all jobs run, that no worker is left in the end, and that there are never more than there may be.
"""

import os
from random import Random

from edge_model import BootFaults
from fleet_examples import binding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_world import Faults, World
from slurm_model import Job

HISTORIES = int(os.environ.get("HISTORIES", "16"))
"""`make test-histories` plays more."""

TROUBLE_SECONDS = 200
AT_MOST_SECONDS = 3000
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
any_trouble = st.builds(
    Faults,
    null_list=some,
    torn_look=some,
    lost_snapshot=some,
    lost_heartbeat=st.sampled_from([0.0, 0.1, 0.8]),
    lost_desired=some,
    late_desired=st.sampled_from([0.0, 0.3, 0.9]),
    failed_call=some,
    crash=st.sampled_from([0.0, 0.01]),
    takeover=st.sampled_from([0.0, 0.01]),
    latency=bad_boots,
)


def world(jobs: list[Job], faults: Faults, seed: int, max_workers: int, **more: object) -> World:
    policy = binding(
        idle_seconds=2, max_workers=max_workers, boot_timeout_seconds=BOOT_TIMEOUT_SECONDS, ghost_seconds=30
    )
    return World(jobs, policy, Random(seed), faults, ends_boots=False, **more)  # type: ignore[arg-type]


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, any_trouble, st.integers(0, 2**32), st.integers(2, 8))
def test_every_ghost_goes_and_no_job_with_it(jobs: list[Job], faults: Faults, seed: int, max_workers: int) -> None:
    history = world(jobs, faults, seed, max_workers)
    history.run(TROUBLE_SECONDS, AT_MOST_SECONDS)
    # Each worker is ordered, named, taken back at most once, retired and forgotten; what jobs come and go adds to it.
    moves = history.state.generation - history.takeovers
    assert moves <= 8 * (history.edge.started + len(jobs)), f"{moves} decisions for {history.edge.started} workers"


@settings(max_examples=HISTORIES // 4, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, st.integers(0, 2**32))
def test_boots_known_to_be_slow_are_spared(jobs: list[Job], seed: int) -> None:
    history = world(jobs, Faults(), seed, 8, boots_seconds=(26, 40), boot_p99_seconds=30.0)
    history.run(0, AT_MOST_SECONDS)
    assert history.edge.unregistered_removed == 0


@settings(max_examples=HISTORIES // 8, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, st.integers(0, 2**32))
def test_boots_not_known_to_be_slow_get_more_time_in_the_end(jobs: list[Job], seed: int) -> None:
    """Otherwise all of them would be given up for ever."""
    world(jobs, Faults(), seed, 8, boots_seconds=(60, 80)).run(0, AT_MOST_SECONDS)


def test_workers_that_register_while_they_are_being_removed() -> None:
    for seed in range(HISTORIES):
        random = Random(seed)
        jobs = [Job(submitted=random.randint(0, 150), cpus=2, memory_mib=100, runs=30) for _ in range(20)]
        faults = Faults(late_desired=0.9, latency=BootFaults(late=0.9, late_seconds=(25, 34)))
        world(jobs, faults, seed, 8).run(TROUBLE_SECONDS, AT_MOST_SECONDS)


def test_the_model_has_ghosts() -> None:
    random = Random(3)
    jobs = [Job(submitted=random.randint(0, 100), cpus=1, memory_mib=100, runs=3) for _ in range(20)]
    history = world(jobs, Faults(latency=BootFaults(never=0.3, late=0.3, deaf=0.3)), 7, 6)
    history.run(TROUBLE_SECONDS, AT_MOST_SECONDS)
    assert history.edge.unregistered_removed > 1
