"""Histories in which machines of some shapes are not to be had: for a while, for good, or at every other moment.

`queue_world.World` asserts what holds of all histories: no worker is removed under a running job, every job runs in the
end, nothing is left over, no cap is passed, and the same inputs never give a second generation.
"""

import os
from random import Random
from typing import Any

from edge_model import Outage
from fleet_examples import CATALOGUE, binding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_world import Faults, World
from slurm_model import Job

HISTORIES = int(os.environ.get("HISTORIES", "16")) // 6
"""`make test-histories` plays more. These are long."""

TROUBLE_SECONDS = 300
AT_MOST_SECONDS = 6000
ALWAYS = 10**6
ANSWER_SECONDS = 45
"""Until a shape that is out is given up: 20 s that any machine may take, 10 s between two heartbeats, and the way."""

SHAPES = [shape.name for shape in CATALOGUE.shapes]
LAST = "memory-xlarge"
"""It holds every job of these histories, and there are machines of it in the end."""

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
any_trouble = st.builds(
    Faults,
    null_list=some,
    torn_look=some,
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
caps = st.fixed_dictionaries(
    {"max_workers": st.integers(3, 12), "name": policies},
    optional={
        "usd_per_hour": st.sampled_from([3 * 32 * 0.04, 5 * 32 * 0.04]),
        "most": st.dictionaries(st.sampled_from(SHAPES), st.integers(3, 4)),
    },
)
"""Each leaves room for three workers of any shape, as many as a job may need."""


def world(jobs: list[Job], faults: Faults, seed: int, gone: list[Outage], **policy: Any) -> World:
    policy = {"idle_seconds": 5, "boot_timeout_seconds": 60, "ghost_seconds": 60, "max_workers": 12} | policy
    return World(jobs, binding(**policy), Random(seed), faults, ends_boots=False, outages=gone)


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, any_trouble, st.integers(0, 2**32), outages, caps)
def test_every_job_runs_in_the_end(
    jobs: list[Job], faults: Faults, seed: int, gone: list[Outage], policy: dict[str, Any]
) -> None:
    until = [outage for outage in gone if outage.shape != LAST or outage.until <= TROUBLE_SECONDS]
    world(jobs, faults, seed, until, **policy).run(TROUBLE_SECONDS, AT_MOST_SECONDS)


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, st.integers(0, 2**32), st.sets(st.sampled_from(SHAPES[:-1]), min_size=1), policies)
def test_a_shape_that_is_out_for_good_is_tried_seldom(jobs: list[Job], seed: int, gone: set[str], policy: str) -> None:
    history = world(jobs, Faults(), seed, [Outage(shape, 0, ALWAYS) for shape in gone], name=policy)
    history.run(0, AT_MOST_SECONDS)
    one_job = max(job.nodes for job in jobs)
    for shape in gone & history.opened.keys():
        tries = [second for second, each in history.edge.starts if each == shape and second > history.opened[shape]]
        for since in tries:
            in_a_minute = sum(since <= second < since + 60 for second in tries)
            assert in_a_minute <= 2 * one_job, f"{in_a_minute} workers of {shape} in the minute from {since}"


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, st.integers(0, 2**32), outages, policies)
def test_a_part_of_a_job_is_paid_no_longer_than_all_shapes_take_to_answer(
    jobs: list[Job], seed: int, gone: list[Outage], policy: str
) -> None:
    """Workers that are there wait for those to come; each shape that the others may be of is tried for some seconds."""
    history = world(jobs, Faults(), seed, [each for each in gone if each.shape != LAST], name=policy)
    history.run(0, AT_MOST_SECONDS)
    assert history.longest_idle_seconds <= len(SHAPES) * ANSWER_SECONDS


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 8),
    st.integers(1, 3),
    st.sampled_from([100, 400]),
    st.sampled_from(SHAPES),
    st.integers(0, 2**32),
    policies,
)
def test_where_every_shape_was_out_the_first_that_comes_is_used(
    jobs: int, nodes: int, until: int, back: str, seed: int, policy: str
) -> None:
    gone = [Outage(shape, 0, until if shape == back else ALWAYS) for shape in SHAPES]
    history = world(
        [Job(submitted=n, cpus=2, memory_mib=4096, nodes=nodes, runs=20) for n in range(jobs)],
        Faults(),
        seed,
        gone,
        name=policy,
    )
    # Each shape may have been tried twice before: alone, and for the rest of a job of several nodes.
    history.run(0, until + 2 * len(SHAPES) * ANSWER_SECONDS + jobs * 120)
    for shape, opened in history.opened.items():
        tries = [second for second, each in history.edge.starts if each == shape and opened < second < until]
        for since in tries:
            assert sum(since <= second < since + 60 for second in tries) <= 2 * nodes


def test_jobs_of_machines_that_are_taken_away_are_queued_again_before_slurm_misses_them() -> None:
    jobs = [Job(submitted=5 * n, cpus=1, memory_mib=100, runs=60) for n in range(20)]
    history = world(jobs, Faults(notice=0.02), 1, [])
    history.run(TROUBLE_SECONDS, AT_MOST_SECONDS)
    assert history.slurm.rescued > 5


def test_the_model_has_outages() -> None:
    jobs = [Job(submitted=5 * n, cpus=1, memory_mib=100, runs=20) for n in range(20)]
    history = world(jobs, Faults(), 1, [Outage("compute-xs", 0, 100), Outage("compute-small", 0, ALWAYS)])
    history.run(0, AT_MOST_SECONDS)
    assert history.opened.keys() == {"compute-xs", "compute-small"}
    assert {shape for _, shape in history.edge.starts} == {"compute-xs", "compute-small", "compute-medium"}
