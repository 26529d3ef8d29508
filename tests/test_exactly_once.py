"""However often and through whichever replica a key is sent, and whatever fails: one job, and one answer."""

import random

from claims_simulation import Troubles, simulate
from clusterra_gateway.http.requests.errors import InFlight
from hypothesis import given
from hypothesis import strategies as st

probabilities = st.sampled_from((0.0, 0.0, 0.2, 0.5, 0.9))
skews = st.floats(-1, 1, allow_nan=False, width=16)


@given(
    seed=st.integers(0, 2**32),
    chances=st.tuples(*[probabilities] * 7),
    clocks=st.tuples(skews, skews, skews),
    clients=st.integers(1, 4),
    until=st.sampled_from((5.0, 60.0, 400.0)),
)
def test_every_history_ends_with_one_job_and_one_answer(
    seed: int, chances: tuple[float, ...], clocks: tuple[float, float, float], clients: int, until: float
) -> None:
    world = simulate(Troubles(random.Random(seed), until, *chances), clocks, clients=clients)

    assert len(world.slurm.jobs) == 1
    assert {answer.job_id for answer in world.answers} == {str(world.slurm.jobs[0].job_id)}
    assert len(world.answers) == clients


def test_without_troubles_nobody_waits() -> None:
    world = simulate(Troubles(random.Random(1), 0.0), (0.0, 0.0, 0.0), clients=4)

    assert len(world.answers) == 4
    assert set(world.statuses) <= {InFlight}
