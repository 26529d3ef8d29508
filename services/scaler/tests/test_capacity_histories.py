"""Simulated clusters in which some shapes are unavailable: for a while, for good, or on and off.

`queue_world.World` asserts what holds in all histories: no worker is removed under a running job, every job runs in the
end, nothing is left over, the limits hold, and the same inputs give no second generation.
"""

import os
from random import Random
from typing import Any

from edge_model import EdgeBehaviour, Outage
from fleet_examples import CATALOGUE, binding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_world import Faults, World
from slurm_model import Job

HISTORIES = int(os.environ.get("HISTORIES", "8")) // 6
"""Number of simulated histories, each of them long. `make test-histories` runs more."""

FAULTY_SECONDS = 300
MAX_SECONDS = 6000
ALWAYS = 10**6
GIVE_UP_SECONDS = 45
"""Time until an unavailable shape is given up: 20 s for any launch, 10 s between two heartbeats, and delays."""

SHAPES = [shape.name for shape in CATALOGUE.shapes]
LAST = "memory-xlarge"
"""It holds every job of these histories, and is available in the end."""

any_jobs = st.lists(
    st.builds(
        Job,
        submitted=st.integers(0, 250),
        cpus=st.sampled_from([1, 1, 2, 3, 8, 32]),
        memory_mib=st.sampled_from([100, 2048, 10_000, 65_536]),
        nodes=st.sampled_from([1, 1, 1, 2, 3]),
        runs=st.integers(1, 60),
    ),
    min_size=1,
    max_size=15,
)
outages = st.lists(
    st.builds(
        lambda shape, since, lasts: Outage(shape, since, since + lasts),
        st.sampled_from(SHAPES),
        st.integers(0, 300),
        st.sampled_from([3, 20, 60, 200, ALWAYS]),
    ),
    max_size=20,
)
some = st.sampled_from([0.0, 0.02, 0.2])
any_faults = st.builds(
    Faults,
    null_list=some,
    torn_snapshot=some,
    lost_snapshot=some,
    lost_heartbeat=st.sampled_from([0.0, 0.1, 0.8]),
    lost_desired=some,
    late_desired=st.sampled_from([0.0, 0.3]),
    failed_call=some,
    crash=st.sampled_from([0.0, 0.01]),
    notice=st.sampled_from([0.0, 0.02]),
    takeover=st.sampled_from([0.0, 0.01, 0.03]),
)
policies = st.sampled_from(["family", "packing"])
limits = st.fixed_dictionaries(
    {"max_workers": st.integers(3, 12), "name": policies},
    optional={
        "usd_per_hour": st.sampled_from([3 * 32 * 0.04, 5 * 32 * 0.04]),
        "most": st.dictionaries(st.sampled_from(SHAPES), st.integers(3, 4)),
    },
)
"""Each allows three workers of any shape, as many as a job may need."""


def world(jobs: list[Job], faults: Faults, seed: int, unavailable: list[Outage], **policy: Any) -> World:
    policy = {"idle_seconds": 5, "boot_timeout_seconds": 60, "ghost_seconds": 60, "max_workers": 12} | policy
    edge = EdgeBehaviour(ends_boots=False, outages=unavailable)
    return World(jobs, binding(**policy), Random(seed), faults, edge)


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, any_faults, st.integers(0, 2**32), outages, limits)
def test_every_job_runs_in_the_end(
    jobs: list[Job], faults: Faults, seed: int, unavailable: list[Outage], policy: dict[str, Any]
) -> None:
    ending_for_last = [outage for outage in unavailable if outage.shape != LAST or outage.until <= FAULTY_SECONDS]
    world(jobs, faults, seed, ending_for_last, **policy).run(FAULTY_SECONDS, MAX_SECONDS)


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, st.integers(0, 2**32), st.sets(st.sampled_from(SHAPES[:-1]), min_size=1), policies)
def test_a_shape_that_stays_unavailable_is_tried_seldom(
    jobs: list[Job], seed: int, unavailable: set[str], policy: str
) -> None:
    history = world(jobs, Faults(), seed, [Outage(shape, 0, ALWAYS) for shape in unavailable], name=policy)

    history.run(0, MAX_SECONDS)

    one_job = max(job.nodes for job in jobs)
    for shape in unavailable & history.opened.keys():
        tries = [second for second, each in history.edge.starts if each == shape and second > history.opened[shape]]
        for since in tries:
            in_a_minute = sum(since <= second < since + 60 for second in tries)
            assert in_a_minute <= 2 * one_job, f"{in_a_minute} workers of {shape} in the minute from {since}"


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, st.integers(0, 2**32), outages, policies)
def test_part_of_a_job_idles_no_longer_than_it_takes_to_try_all_shapes(
    jobs: list[Job], seed: int, unavailable: list[Outage], policy: str
) -> None:
    """A job's first workers wait for the others. Each shape that these may have is tried for some seconds."""
    history = world(jobs, Faults(), seed, [each for each in unavailable if each.shape != LAST], name=policy)

    history.run(0, MAX_SECONDS)

    assert history.longest_idle_seconds <= len(SHAPES) * GIVE_UP_SECONDS


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 8),
    st.integers(1, 3),
    st.sampled_from([100, 400]),
    st.sampled_from(SHAPES),
    st.integers(0, 2**32),
    policies,
)
def test_after_an_outage_of_all_shapes_the_first_available_one_is_used(
    jobs: int, nodes: int, until: int, available: str, seed: int, policy: str
) -> None:
    outages_of_all = [Outage(shape, 0, until if shape == available else ALWAYS) for shape in SHAPES]
    history = world(
        [Job(submitted=n, cpus=2, memory_mib=4096, nodes=nodes, runs=20) for n in range(jobs)],
        Faults(),
        seed,
        outages_of_all,
        name=policy,
    )

    # Cheaper shapes are tried again after pauses of 1, 2, 4 and 8 minutes, before those that have not been tried yet.
    history.run(0, until + 5 * len(SHAPES) * GIVE_UP_SECONDS + jobs * 120)

    for shape, opened in history.opened.items():
        tries = [second for second, each in history.edge.starts if each == shape and opened < second < until]
        for since in tries:
            assert sum(since <= second < since + 60 for second in tries) <= 2 * nodes


def test_jobs_of_interrupted_workers_are_requeued_before_slurm_notices() -> None:
    jobs = [Job(submitted=5 * n, cpus=1, memory_mib=100, runs=60) for n in range(20)]
    history = world(jobs, Faults(notice=0.02), 1, [])

    history.run(FAULTY_SECONDS, MAX_SECONDS)

    assert history.slurm.rescued > 5


def test_the_simulation_has_outages() -> None:
    jobs = [Job(submitted=5 * n, cpus=1, memory_mib=100, runs=20) for n in range(20)]
    history = world(jobs, Faults(), 1, [Outage("compute-xs", 0, 100), Outage("compute-small", 0, ALWAYS)])

    history.run(0, MAX_SECONDS)

    assert history.opened.keys() == {"compute-xs", "compute-small"}
    assert {shape for _, shape in history.edge.starts} == {"compute-xs", "compute-small", "compute-medium"}
