"""Properties of every packing."""

from copy import copy, deepcopy
from dataclasses import replace

import pytest
from clusterra_scaler.planner.estimates.remaining_time import certain
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.pack import Packing, pack
from clusterra_scaler.planner.packing.placement_predicate import rejects
from clusterra_scaler.planner.packing.settings import Settings
from hypothesis import given
from hypothesis import strategies as st
from packing_examples import HOUR, OFFERINGS, any_bins, any_groups, fading

SETTINGS = Settings()
any_settings = st.builds(
    Settings,
    credit=st.sampled_from([0.0, 0.4, 1.0]),
    local_search=st.booleans(),
    trials=st.sampled_from([1, 100, 50_000]),
)


def by_id(groups: list[Group]) -> dict[str, Group]:
    return {job_id: group for group in groups for job_id in group.job_ids}


def all_bins(bins: list[Bin], packing: Packing) -> dict[str, Bin]:
    """Open and bought bins by id, as they were before anything was placed."""
    bought = [Bin.of(purchase.id, purchase.offering) for purchase in packing.purchases]
    return {bin_.id: copy(bin_) for bin_ in (*bins, *bought)}


@given(any_groups(), any_bins(), any_settings)
def test_no_bin_is_overfilled_and_nodes_are_distinct(groups: list[Group], bins: list[Bin], settings: Settings) -> None:
    packing = pack(groups, bins, OFFERINGS, settings)
    fill, jobs = all_bins(bins, packing), by_id(groups)
    for placement in packing.placements:
        group = jobs[placement.job_id]
        assert len(set(placement.bin_ids)) == len(placement.bin_ids) == group.nodes
        for name in placement.bin_ids:
            bin_ = fill[name]
            assert bin_.fits(group)
            bin_.add(group)
            assert bin_.cpus >= 0
            assert bin_.memory_gib >= -1e-6
            assert bin_.gpus >= 0


@given(any_groups(), any_bins(), any_settings)
def test_every_job_that_some_shape_holds_is_placed_once(
    groups: list[Group], bins: list[Bin], settings: Settings
) -> None:
    packing = pack(groups, bins, OFFERINGS, settings)
    placed = [placement.job_id for placement in packing.placements]

    possible = {
        job_id
        for job_id, group in by_id(groups).items()
        if any(
            group.cpus <= each.cpus
            and group.memory_gib <= each.memory_gib
            and group.gpus <= each.gpus
            and (group.shapes is None or each.shape in group.shapes)
            for each in OFFERINGS
        )
    }

    assert len(placed) == len(set(placed))
    assert set(placed) == possible
    assert set(packing.impossible) == set(by_id(groups)) - possible


@given(any_groups(), any_bins())
def test_every_bought_worker_is_used(groups: list[Group], bins: list[Bin]) -> None:
    packing = pack(groups, bins, OFFERINGS, SETTINGS)
    used = {name for placement in packing.placements for name in placement.bin_ids}
    bought = {purchase.id for purchase in packing.purchases}
    assert bought <= used
    assert len(bought) == len(packing.purchases)


@given(any_groups(), any_bins(), any_settings)
def test_an_exclusive_job_shares_no_worker(groups: list[Group], bins: list[Bin], settings: Settings) -> None:
    packing = pack(groups, bins, OFFERINGS, settings)
    jobs = by_id(groups)
    before = {bin_.id: bin_ for bin_ in bins}
    for placement in packing.placements:
        if jobs[placement.job_id].exclusive:
            for name in placement.bin_ids:
                assert name not in before or before[name].empty
                assert sum(name in other.bin_ids for other in packing.placements) == 1


@given(any_groups(), any_bins(), any_settings)
def test_packing_is_deterministic_and_leaves_its_arguments_unchanged(
    groups: list[Group], bins: list[Bin], settings: Settings
) -> None:
    kept = deepcopy((groups, bins))
    first = pack(groups, bins, OFFERINGS, settings)

    assert (groups, bins) == kept
    assert pack(list(reversed(groups)), bins, OFFERINGS, settings) == first or len(
        {(-group.remaining.mean_seconds * group.cpus, group.job_ids[0]) for group in groups}
    ) < len(groups)
    assert pack(groups, bins, OFFERINGS, settings) == first


@given(any_groups(), any_bins(), any_settings)
def test_a_packing_costs_at_most_a_new_worker_per_node(
    groups: list[Group], bins: list[Bin], settings: Settings
) -> None:
    packing = pack(groups, bins, OFFERINGS, settings)
    alone = 0.0

    for job_id, group in by_id(groups).items():
        new = cheapest_new_worker(group, OFFERINGS, settings)
        if new is not None:
            assert job_id not in packing.impossible
            alone += new[0] * group.nodes

    assert sum(placement.usd for placement in packing.placements) <= alone + 1e-9


@given(any_groups(), any_bins())
def test_no_job_goes_where_the_placement_predicate_rejects_it(groups: list[Group], bins: list[Bin]) -> None:
    settings = Settings(local_search=False)
    packing = pack(groups, bins, OFFERINGS, settings)
    fill, jobs = all_bins(bins, packing), by_id(groups)
    opened = {bin_.id for bin_ in bins}
    for placement in packing.placements:
        group = jobs[placement.job_id]
        new = cheapest_new_worker(group, OFFERINGS, settings)
        assert new is not None
        for name in placement.bin_ids:
            assert name not in opened or not rejects(fill[name], group, new[0], settings)
            fill[name].add(group)


def test_where_all_shapes_add_nothing_the_cheapest_is_bought() -> None:
    """The estimate of a job that ends within minutes may be 0 seconds."""
    instant = [replace(offering, boot_seconds=0.0) for offering in OFFERINGS]

    packing = pack([Group(("1",), 4, 30.0, certain(0.0))], [], instant, Settings())

    assert [bin_.offering.shape for bin_ in packing.purchases] == ["memory-4"]


def test_a_short_job_shares_a_long_ones_worker_and_a_long_one_gets_its_own() -> None:
    big = next(each for each in OFFERINGS if each.shape == "compute-16")
    short = Group(("short",), 4, 8.0, certain(HOUR))
    long = Group(("long",), 4, 8.0, certain(100 * HOUR))
    busy_long, busy_short = Bin.of("open", big), Bin.of("open", big)
    busy_long.add(long)
    busy_short.add(short)
    assert pack([short], [busy_long], OFFERINGS, SETTINGS).placements[0].bin_ids == ("open",)

    (purchase,) = pack([long], [busy_short], OFFERINGS, SETTINGS).purchases
    assert purchase.offering.shape == "compute-4"


def test_jobs_that_save_on_one_worker_share_it() -> None:
    cpus = Group(("cpus",), 12, 8.0, certain(10 * HOUR))
    memory = Group(("memory",), 4, 100.0, certain(10 * HOUR))

    together, apart = (
        pack([cpus, memory], [], OFFERINGS, Settings(local_search=search)).purchases for search in (True, False)
    )

    assert [purchase.offering.shape for purchase in together] == ["memory-16"]
    assert [purchase.offering.shape for purchase in apart] == ["compute-16", "memory-16"]


def test_only_allowed_shapes_are_bought_for_a_job() -> None:
    job = Group(("job",), 1, 1.0, fading(HOUR), shapes=frozenset({"memory-16"}))
    assert [each.offering.shape for each in pack([job], [], OFFERINGS, SETTINGS).purchases] == ["memory-16"]


@pytest.mark.parametrize("credit", [0.0, 0.4])
def test_the_marginal_cost_is_the_prolongation_and_the_capacity_taken(credit: float) -> None:
    offering = next(each for each in OFFERINGS if each.shape == "compute-4")
    bin_ = Bin.of("open", offering)
    bin_.add(Group(("first",), 1, 2.0, certain(HOUR)))
    job = Group(("second",), 1, 2.0, certain(3 * HOUR))

    # For an hour it takes a quarter that was usable; for two more it pays for all and leaves three quarters free.
    usd = 2 * 0.145 + credit * (0.145 / 4 * 1 - 0.145 * 3 / 4 * 2)

    assert bin_.marginal_usd(job, replace(SETTINGS, credit=credit)) == pytest.approx(usd)
