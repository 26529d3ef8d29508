"""Equal jobs are placed together as they would be one by one."""

from dataclasses import replace

import pytest
from clusterra_scaler.planner.estimates.remaining_time import OVER
from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings
from hypothesis import given
from hypothesis import strategies as st
from packing_examples import OFFERINGS, any_bins, any_groups

SETTINGS = Settings()
EVERY_BIN = 10_000


def filled(groups: list[Group], bins: list[Bin], times: int, at_once: int) -> Assignment:
    """An assignment of each group's jobs `times` times, placed in batches of `at_once`."""
    assignment = Assignment([replace(bin_) for bin_ in bins], OFFERINGS, SETTINGS, EVERY_BIN)
    for group in groups:
        new = cheapest_new_worker(group, OFFERINGS, SETTINGS)
        if new is not None:
            job_ids = [f"{job_id}-{time}" for job_id in group.job_ids for time in range(times)]
            for begin in range(0, len(job_ids), at_once):
                assignment.place(Waiting(group, job_ids[begin : begin + at_once], *new), buy=True)
    return assignment


@given(any_groups(), any_bins(), st.integers(1, 6))
def test_equal_jobs_are_placed_as_they_would_be_one_by_one(groups: list[Group], bins: list[Bin], times: int) -> None:
    together, one_by_one = filled(groups, bins, times, at_once=100), filled(groups, bins, times, at_once=1)
    assert [each.offering.shape for each in together.bought] == [each.offering.shape for each in one_by_one.bought]
    for each, other in zip(together.placed, one_by_one.placed, strict=True):
        assert each.job_id == other.job_id
        assert [bin_.order for bin_ in each.bins] == [bin_.order for bin_ in other.bins]
        assert each.usd == pytest.approx(other.usd)


@given(any_groups(), any_bins(), st.integers(1, 3))
def test_equal_bins_are_filled_as_different_ones_would_be(groups: list[Group], bins: list[Bin], times: int) -> None:
    equal = [replace(bin_, id=f"{bin_.id}-{time}") for bin_ in bins for time in range(times)]
    different = [bin_ if bin_.busy is OVER else replace(bin_, busy=replace(bin_.busy)) for bin_ in equal]
    one, other = filled(groups, equal, times, at_once=100), filled(groups, different, times, at_once=100)
    assert [(each.job_id, each.bin_ids) for each in one.placed] == [
        (each.job_id, each.bin_ids) for each in other.placed
    ]


@given(any_groups(), any_bins(), st.floats(0.0, 10.0))
def test_a_marginal_cost_above_the_maximum_is_never_reported_below_it(
    groups: list[Group], bins: list[Bin], most_usd: float
) -> None:
    for bin_ in bins:
        for group in groups:
            if bin_.fits(group):
                usd, at_most = bin_.marginal_usd(group, SETTINGS), bin_.marginal_usd(group, SETTINGS, most_usd)
                assert at_most == usd or (at_most > most_usd and usd > most_usd - 1e-9)
