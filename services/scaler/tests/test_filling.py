"""Equal jobs are placed together, as they would be one after the other."""

from dataclasses import replace

import pytest
from clusterra_scaler.planner.estimates.remaining_time import OVER
from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings
from hypothesis import given
from hypothesis import strategies as st
from packing_examples import OFFERINGS, any_groups, any_rooms

SETTINGS = Settings()
EVERY_ROOM = 10_000


def filled(groups: list[Group], bins: list[Bin], times: int, at_once: int) -> Assignment:
    """Each group's jobs so many times over, and so many of them at once."""
    assignment = Assignment([replace(bin_) for bin_ in bins], OFFERINGS, SETTINGS, EVERY_ROOM)
    for group in groups:
        new = cheapest_new(group, OFFERINGS, SETTINGS)
        if new is not None:
            job_ids = [f"{job_id}-{time}" for job_id in group.job_ids for time in range(times)]
            for begin in range(0, len(job_ids), at_once):
                assignment.place(Waiting(group, job_ids[begin : begin + at_once], *new), buy=True)
    return assignment


@given(any_groups(), any_rooms(), st.integers(1, 6))
def test_equal_jobs_go_where_they_would_one_by_one(groups: list[Group], bins: list[Bin], times: int) -> None:
    together, one_by_one = filled(groups, bins, times, at_once=100), filled(groups, bins, times, at_once=1)
    assert [each.offering.shape for each in together.bought] == [each.offering.shape for each in one_by_one.bought]
    for each, other in zip(together.placed, one_by_one.placed, strict=True):
        assert each.job_id == other.job_id
        assert [bin_.order for bin_ in each.bins] == [bin_.order for bin_ in other.bins]
        assert each.usd == pytest.approx(other.usd)


@given(any_groups(), any_rooms(), st.integers(1, 3))
def test_rooms_that_are_alike_take_what_each_would_take_alone(groups: list[Group], bins: list[Bin], times: int) -> None:
    alike = [replace(bin_, id=f"{bin_.id}-{time}") for bin_ in bins for time in range(times)]
    apart = [bin_ if bin_.busy is OVER else replace(bin_, busy=replace(bin_.busy)) for bin_ in alike]
    one, other = filled(groups, alike, times, at_once=100), filled(groups, apart, times, at_once=100)
    assert [(each.job_id, each.room_ids) for each in one.placed] == [
        (each.job_id, each.room_ids) for each in other.placed
    ]


@given(any_groups(), any_rooms(), st.floats(0.0, 10.0))
def test_a_price_beyond_the_most_is_beyond_it_in_any_case(groups: list[Group], bins: list[Bin], most: float) -> None:
    for bin_ in bins:
        for group in groups:
            if bin_.takes(group):
                usd, at_most = bin_.price_of(group, SETTINGS), bin_.price_of(group, SETTINGS, most)
                assert at_most == usd or (at_most > most and usd > most - 1e-9)
