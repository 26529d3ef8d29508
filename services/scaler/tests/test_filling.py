"""Equal jobs are placed together, as they would be one after the other."""

import pytest
from clusterra_scaler.planner.packing.filling import Filling, Waiting
from clusterra_scaler.planner.packing.rooms import Room, cheapest_new
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import Group
from hypothesis import given
from hypothesis import strategies as st
from packing_examples import OFFERINGS, any_groups, any_rooms

SETTINGS = Settings()
EVERY_ROOM = 10_000


def filled(groups: list[Group], rooms: list[Room], times: int, at_once: int) -> Filling:
    """Each group's jobs so many times over, and so many of them at once."""
    filling = Filling([room.copy() for room in rooms], OFFERINGS, SETTINGS, EVERY_ROOM)
    for group in groups:
        new = cheapest_new(group, OFFERINGS, SETTINGS)
        if new is not None:
            job_ids = [f"{job_id}-{time}" for job_id in group.job_ids for time in range(times)]
            for begin in range(0, len(job_ids), at_once):
                filling.place(Waiting(group, job_ids[begin : begin + at_once], *new), buy=True)
    return filling


@given(any_groups(), any_rooms(), st.integers(1, 6))
def test_equal_jobs_go_where_they_would_one_by_one(groups: list[Group], rooms: list[Room], times: int) -> None:
    together, one_by_one = filled(groups, rooms, times, at_once=100), filled(groups, rooms, times, at_once=1)
    assert [each.offering.shape for each in together.bought] == [each.offering.shape for each in one_by_one.bought]
    for each, other in zip(together.placed, one_by_one.placed, strict=True):
        assert each.job_id == other.job_id
        assert [room.order for room in each.rooms] == [room.order for room in other.rooms]
        assert each.usd == pytest.approx(other.usd)
