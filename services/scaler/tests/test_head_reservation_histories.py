"""Random histories at a limit: the head job starts in time, however many small jobs arrive meanwhile."""

import os
from random import Random
from typing import Any

from fleet_examples import CATALOGUE, binding
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from queue_world import Faults, World
from slurm_model import Job

HISTORIES = max(1, int(os.environ.get("HISTORIES", "8")) // 5 - 1)
"""Besides the explicit example. `make test-histories` plays more. These are long."""

SUBMITTED = 60
SMALL_RUNS = 25
BOUND_SECONDS = 300
"""A minute before the reservation, the longest small job, a removal, a boot; and all again where Slurm was faster."""
XLARGE_USD = CATALOGUE["compute-xlarge"].usd_per_hour

limits = st.one_of(
    st.builds(lambda workers: {"max_workers": workers}, st.integers(3, 5)),
    st.just({"max_workers": 40, "usd_per_hour": 1.2 * XLARGE_USD}),
)
big_jobs = st.one_of(
    st.builds(
        Job, submitted=st.just(SUBMITTED), cpus=st.sampled_from([8, 20, 32]), memory_mib=st.just(2048), runs=st.just(20)
    ),
    st.builds(
        Job,
        submitted=st.just(SUBMITTED),
        cpus=st.sampled_from([2, 8]),
        memory_mib=st.just(10_000),
        runs=st.just(20),
        nodes=st.sampled_from([2, 3]),
    ),
)


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@example(
    Job(submitted=SUBMITTED, cpus=32, memory_mib=2048, runs=20),
    {"max_workers": 40, "usd_per_hour": 1.2 * XLARGE_USD},
    1060578839,
)  # Victims that the edge had not been told of yet were counted twice, and the reservation was dropped for a moment.
@given(big_jobs, limits, st.integers(0, 2**32))
def test_a_big_job_starts_in_time_however_many_small_ones_arrive(job: Job, policy: dict[str, Any], seed: int) -> None:
    """The small jobs keep all small workers busy that the limits allow."""
    workers = min(policy["max_workers"], int(policy.get("usd_per_hour", 1e9) / CATALOGUE["compute-xs"].usd_per_hour))
    jobs = [
        Job(
            submitted=number * SMALL_RUNS // workers, cpus=2, memory_mib=2048, runs=SMALL_RUNS, limit=3600, classed=True
        )
        for number in range((SUBMITTED + BOUND_SECONDS) * workers // SMALL_RUNS)
    ]
    world = World(
        [*jobs, job],
        binding(name="packing", idle_seconds=20, boot_timeout_seconds=60, **policy),
        Random(seed),
        Faults(),
    )

    world.run(0, SUBMITTED + 2 * BOUND_SECONDS)

    assert job.started - SUBMITTED <= BOUND_SECONDS
