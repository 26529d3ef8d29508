"""Simulated workers of no use: Slurm drains them as they register, or never starts the jobs they are bought for.

`queue_world.World` asserts what holds in all histories. Here the starts of workers and the dollars for idle ones are
bounded, whatever goes wrong.
"""

import os
from random import Random
from typing import Any

from clusterra_contracts.shapes import Catalogue
from edge_model import BootFaults, EdgeBehaviour
from fleet_examples import CATALOGUE, binding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_world import Faults, World
from slurm_model import Job

HISTORIES = int(os.environ.get("HISTORIES", "8")) // 8
"""Number of simulated histories, each of them long. `make test-histories` runs more."""

CANCELLED_SECONDS = 1000
SHAPES = frozenset(shape.name for shape in CATALOGUE.shapes)
FOUR_SHAPES = Catalogue(shapes=CATALOGUE.shapes[:4])


def world(jobs: list[Job], boots: BootFaults, seed: int = 1, catalogue: Catalogue = CATALOGUE, **policy: Any) -> World:
    policy = {"idle_seconds": 60, "boot_timeout_seconds": 60, "ghost_seconds": 60, "max_workers": 10} | policy
    return World(
        jobs, binding(catalogue, **policy), Random(seed), Faults(boots=boots), EdgeBehaviour(boot_seconds=(5, 15))
    )


def small_jobs(count: int, cancelled: int, **fields: Any) -> list[Job]:
    return [Job(0, cpus=2, memory_mib=2048, runs=30, cancelled=cancelled, **fields) for _ in range(count)]


def test_a_shape_that_slurm_drains_is_given_up_for_another(policy: str) -> None:
    history = world(
        [Job(0, cpus=2, memory_mib=2048, runs=30)], BootFaults(short_shapes=frozenset({"compute-xs"})), name=policy
    )

    history.run(600, 1200)

    first, second, third = [shape for _, shape in history.edge.starts]
    assert first == second == "compute-xs" != third


def test_workers_that_slurm_drains_are_tried_seldom(policy: str) -> None:
    history = world(small_jobs(12, 500), BootFaults(short_shapes=SHAPES), catalogue=FOUR_SHAPES, name=policy)

    history.run(600, 900)

    late = [second for second, _ in history.edge.starts if second > 250]
    assert len(history.edge.starts) <= 4 * (10 + 4)
    assert len(late) <= 4 * 2


def test_jobs_that_slurm_never_starts_hold_no_workers(policy: str) -> None:
    history = world(small_jobs(50, 800, never=True), BootFaults(), name=policy)

    history.run(0, 1000)

    at_first = [shape for second, shape in history.edge.starts if second < 100]
    tries = [second for second, _ in history.edge.starts if second >= 100]
    # A boot, Slurm's two cycles, and the keep-alive time.
    assert history.idle_usd < sum(CATALOGUE[shape].usd_per_hour for shape in at_first) * 240 / 3600
    assert len(tries) in (1, 2)


any_jobs = st.lists(
    st.builds(
        Job,
        submitted=st.integers(0, 120),
        cpus=st.sampled_from([1, 2, 8, 32]),
        memory_mib=st.sampled_from([100, 10_000]),
        nodes=st.sampled_from([1, 1, 2]),
        runs=st.integers(1, 60),
        never=st.booleans(),
        cancelled=st.just(CANCELLED_SECONDS),
    ),
    min_size=1,
    max_size=12,
)
some = st.sampled_from([0.0, 0.02, 0.1])
any_faults = st.builds(
    Faults,
    null_list=some,
    torn_snapshot=some,
    lost_snapshot=some,
    lost_heartbeat=some,
    lost_desired=some,
    failed_call=some,
    takeover=st.sampled_from([0.0, 0.002]),
    boots=st.builds(
        BootFaults,
        late=some,
        short=st.sampled_from([0.0, 0.2]),
        short_shapes=st.frozensets(st.sampled_from(sorted(SHAPES))) | st.just(SHAPES),
    ),
)


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(any_jobs, any_faults, st.integers(0, 2**32), st.sampled_from(["family", "packing"]))
def test_starts_and_idle_dollars_are_bounded_under_any_faults(
    jobs: list[Job], faults: Faults, seed: int, policy: str
) -> None:
    history = world(jobs, faults.boots, seed, name=policy, max_workers=6)
    history.faults = faults

    history.run(CANCELLED_SECONDS, 1500)

    dearest = max((CATALOGUE[shape].usd_per_hour for _, shape in history.edge.starts), default=0.0)
    late = [second for second, _ in history.edge.starts if 500 <= second < CANCELLED_SECONDS]
    assert len(late) <= 4 * len(SHAPES), late
    assert history.idle_usd <= 6 * dearest * 600 / 3600, history.idle_usd
