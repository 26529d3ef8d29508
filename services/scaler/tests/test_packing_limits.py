"""Packing within limits."""

from collections import Counter

import pytest
from clusterra_scaler.planner.estimates.remaining_time import certain
from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.fair_share import HeadJob, Precedence
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.limits import Limits
from clusterra_scaler.planner.packing.pack import pack
from clusterra_scaler.planner.packing.settings import Settings
from hypothesis import assume, given
from hypothesis import strategies as st
from packing_examples import HOUR, OFFERINGS, any_bins, any_groups, any_limits

SETTINGS = Settings()
PRICES = {each.shape: each.usd_per_second * HOUR for each in OFFERINGS}


def equal_jobs(owner: str, count: int, cpus: int = 4) -> Group:
    return Group(tuple(f"{owner}-{number}" for number in range(count)), cpus, 8.0, certain(HOUR), owner=owner)


@given(any_groups(), any_bins(), any_limits)
def test_purchases_stay_within_the_limits(groups: list[Group], bins: list[Bin], limits: Limits) -> None:
    shapes = [each.offering.shape for each in pack(groups, bins, OFFERINGS, SETTINGS, limits).purchases]
    assert limits.workers is None or len(shapes) <= limits.workers
    assert limits.usd_per_hour is None or sum(PRICES[shape] for shape in shapes) <= limits.usd_per_hour + 1e-6
    for shape, count in Counter(shapes).items():
        assert count <= limits.of_shape.get(shape, count)


@given(any_groups(), any_bins(), any_limits)
def test_each_job_is_placed_whole_or_reported(groups: list[Group], bins: list[Bin], limits: Limits) -> None:
    packing = pack(groups, bins, OFFERINGS, SETTINGS, limits)
    jobs = {job_id: group for group in groups for job_id in group.job_ids}

    placed = [each.job_id for each in packing.placements]
    assert sorted([*placed, *packing.impossible, *packing.unaffordable]) == sorted(jobs)
    assert set(packing.impossible) == set(pack(groups, bins, OFFERINGS, SETTINGS).impossible)

    fill = {bin_.id: bin_.copy() for bin_ in bins}
    fill |= {each.id: Bin.of(each.id, each.offering) for each in packing.purchases}
    for each in packing.placements:
        group = jobs[each.job_id]
        assert len(set(each.bin_ids)) == group.nodes
        for name in each.bin_ids:
            assert fill[name].fits(group)
            fill[name].add(group)
    used = {name for each in packing.placements for name in each.bin_ids}
    assert {each.id for each in packing.purchases} <= used


@given(any_groups(), any_bins(), any_limits)
def test_for_an_unaffordable_job_no_worker_could_be_bought(
    groups: list[Group], bins: list[Bin], limits: Limits
) -> None:
    packing = pack(groups, bins, OFFERINGS, SETTINGS, limits)
    left = limits.after([each.offering for each in packing.purchases])
    jobs = {job_id: group for group in groups for job_id in group.job_ids}
    for job_id in packing.unaffordable:
        group = jobs[job_id]
        assert not any(group.runs_on(each) for each in left.affordable(OFFERINGS, group.nodes))


@given(any_groups(), any_bins())
def test_limits_that_do_not_bind_change_nothing(groups: list[Group], bins: list[Bin]) -> None:
    wide = Limits(10_000, {each.shape: 10_000 for each in OFFERINGS}, 1e9)
    assert pack(groups, bins, OFFERINGS, SETTINGS, wide) == pack(groups, bins, OFFERINGS, SETTINGS)


@given(st.lists(st.integers(1, 12), min_size=2, max_size=4), st.integers(1, 20))
def test_owners_are_served_in_turn(counts: list[int], workers: int) -> None:
    groups = [equal_jobs(f"owner{number}", count) for number, count in enumerate(counts)]
    packing = pack(groups, [], OFFERINGS, SETTINGS, Limits(workers=workers))
    got = Counter(each.job_id.partition("-")[0] for each in packing.placements)
    most = max(got.values())
    for number, count in enumerate(counts):
        assert got[f"owner{number}"] >= min(count, most - 1)


def test_an_owner_with_more_running_jobs_waits_for_the_others() -> None:
    groups = [equal_jobs("ada", 4, cpus=16), equal_jobs("bob", 4, cpus=16)]
    running = {"ada": 3.5 * PRICES["compute-16"]}
    packing = pack(groups, [], OFFERINGS, SETTINGS, Limits(workers=4), Precedence(running))
    assert [each.job_id.partition("-")[0] for each in packing.placements] == ["bob"] * 4
    packing = pack(groups, [], OFFERINGS, SETTINGS, Limits(workers=6), Precedence(running))
    assert Counter(each.job_id.partition("-")[0] for each in packing.placements) == {"bob": 4, "ada": 2}


def test_at_the_worker_limit_fewer_and_larger_workers_are_bought() -> None:
    short, long = (Group((name,), 4, 8.0, certain(hours * HOUR)) for name, hours in (("short", 0.1), ("long", 100)))
    assert [each.offering.shape for each in pack([short, long], [], OFFERINGS, SETTINGS).purchases] == ["compute-4"] * 2
    packing = pack([short, long], [], OFFERINGS, SETTINGS, Limits(workers=1))
    assert [each.offering.shape for each in packing.purchases] == ["compute-16"]
    assert packing.unaffordable == ()


def test_a_bought_worker_is_no_larger_than_its_jobs_need() -> None:
    gang = Group(("gang",), 16, 100.0, certain(HOUR), nodes=3)
    packing = pack([gang, equal_jobs("bob", 1)], [], OFFERINGS, SETTINGS, Limits(workers=1))
    assert [each.offering.shape for each in packing.purchases] == ["compute-4"]
    assert packing.unaffordable == ("gang",)


def test_at_the_cost_limit_no_larger_workers_are_bought() -> None:
    usd = 2.5 * PRICES["compute-4"]
    packing = pack([equal_jobs("ada", 8)], [], OFFERINGS, SETTINGS, Limits(workers=3, usd_per_hour=usd))
    assert [each.offering.shape for each in packing.purchases] == ["compute-4"] * 2


def test_an_owners_jobs_are_served_in_order() -> None:
    small, big = equal_jobs("ada", 1), Group(("big",), 16, 100.0, certain(9 * HOUR), owner="ada")
    for groups in ([small, big], [big, small]):
        packing = pack(groups, [], OFFERINGS, SETTINGS, Limits(usd_per_hour=PRICES["memory-16"]))
        assert packing.placements[0].job_id == groups[0].job_ids[0]


@given(any_groups(), any_bins(), any_limits, st.data())
def test_what_the_head_job_needs_is_bought_for_no_other_job(
    groups: list[Group], bins: list[Bin], limits: Limits, data: st.DataObject
) -> None:
    unaffordable = pack(groups, bins, OFFERINGS, SETTINGS, limits).unaffordable
    assume(unaffordable)
    job_id = data.draw(st.sampled_from(unaffordable))
    (group,) = (each for each in groups if job_id in each.job_ids)
    shape = next(each.shape for each in OFFERINGS if group.runs_on(each))
    packing = pack(groups, bins, OFFERINGS, SETTINGS, limits, Precedence(head_job=HeadJob(job_id, shape)))
    bought = [each.offering for each in packing.purchases]

    jobs = sorted(job_id for each in groups for job_id in each.job_ids)

    assert sorted([each.job_id for each in packing.placements] + [*packing.impossible, *packing.unaffordable]) == jobs
    assert limits.allow(bought)

    if job_id in packing.unaffordable and not bins and bought:
        reserved = [next(each for each in OFFERINGS if each.shape == shape)] * group.nodes
        assert limits.workers is None or len(bought) + len(reserved) <= limits.workers
        assert limits.usd_per_hour is None or Limits(usd_per_hour=limits.usd_per_hour).allow([*bought, *reserved])


@pytest.mark.parametrize(("left", "shape"), [(1, "compute-4"), (0, "memory-4")])
def test_a_shape_at_its_limit_is_replaced_by_the_next_cheapest(left: int, shape: str) -> None:
    packing = pack([equal_jobs("ada", 1)], [], OFFERINGS, SETTINGS, Limits(of_shape={"compute-4": left}))
    assert [each.offering.shape for each in packing.purchases] == [shape]


def test_a_job_of_several_nodes_is_placed_whole_or_not_at_all() -> None:
    gang = Group(("gang",), 16, 100.0, certain(HOUR), nodes=3)
    single = equal_jobs("bob", 1)
    packing = pack([gang, single], [], OFFERINGS, SETTINGS, Limits(usd_per_hour=2.5 * PRICES["memory-16"]))
    assert packing.unaffordable == ("gang",)
    assert [each.job_id for each in packing.placements] == ["bob-0"]


def test_a_job_whose_only_shape_is_at_its_limit_still_uses_an_open_worker() -> None:
    job = Group(("first", "second"), 16, 100.0, certain(HOUR))
    bin_ = Bin.of("open", next(each for each in OFFERINGS if each.shape == "memory-16"))
    packing = pack([job], [bin_], OFFERINGS, SETTINGS, Limits(of_shape={"memory-16": 0}))
    assert [(each.job_id, each.bin_ids) for each in packing.placements] == [("first", ("open",))]
    assert packing.unaffordable == ("second",)
