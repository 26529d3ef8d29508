"""The search among thousands of bins: it finds what a scan of all finds, with work per demand and not per job."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.estimates.remaining_time import certain
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.placement.bin_search import BinSearch
from fleet_examples import edge, group, node, observation, running, snapshot, state, target, worker
from hypothesis import given
from hypothesis import strategies as st

REQUESTS = st.tuples(st.integers(1, 8), st.sampled_from((1.0, 2.5, 8.0)), st.booleans())


@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from((0.0, 2.5, 16.0))), max_size=200), st.lists(REQUESTS))
def test_it_finds_what_a_scan_of_all_bins_finds(free: list[tuple[int, float]], requests: list[Any]) -> None:
    offering = Offering("general-8", 8, 32.0, 1.0, 60.0)
    workers: list[Any] = [SimpleNamespace(bin=Bin("", offering, cpus, memory_gib, 0.0)) for cpus, memory_gib in free]
    search = BinSearch(workers)
    for cpus, memory_gib, exclusive in requests * 9:
        wanted = Group(("1",), cpus, memory_gib, certain(60.0), exclusive=exclusive)
        scanned = [each for each in workers if each.bin.fits(wanted)]

        found = list(search.fitting(wanted))

        assert found == scanned
        for each in found[:2]:
            each.bin.add(wanted)


def test_jobs_that_find_no_place_at_the_limit_cost_no_search_each() -> None:
    """With a search of all workers for each such job, 50,000 of them took minutes."""
    names = [f"general-small-{number}" for number in range(200)]
    shot = snapshot(
        tuple(
            group(*(str(1000 * number + each) for each in range(1, 101)), cpus=2 + number % 3, uid=number)
            for number in range(1, 31)
        ),
        tuple(running(str(1_000_000 + number), name, cpus=4) for number, name in enumerate(names)),
        tuple(node(name, used=4) for name in names),
    )
    seen = observation(shot, edge(*map(worker, names)), name="packing", max_workers=len(names))
    searched, fits = 0, Bin.fits

    def counted(bin_: Bin, wanted: Group) -> bool:
        nonlocal searched
        searched += 1
        return fits(bin_, wanted)

    with patch.object(Bin, "fits", counted):
        decision = decide(seen, state(target("general-small", len(names))), ObservationHistory())

    assert decision.plan is not None
    assert sum(unmet.count for unmet in decision.plan.unmet) == 3000
    assert searched < 3000
