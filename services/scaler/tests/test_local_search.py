"""The local search on purchases."""

from clusterra_scaler.planner.estimates.remaining_time import certain
from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.local_search import improve
from clusterra_scaler.planner.packing.pack import pack
from clusterra_scaler.planner.packing.settings import Settings
from hypothesis import given
from packing_examples import HOUR, OFFERINGS, any_bins, any_groups

SETTINGS = Settings()


@given(any_groups(), any_bins())
def test_the_search_saves_or_changes_nothing(groups: list[Group], bins: list[Bin]) -> None:
    assignment = Assignment([bin_.copy() for bin_ in bins], OFFERINGS, SETTINGS, SETTINGS.trials)
    for group in groups:
        new = cheapest_new_worker(group, OFFERINGS, SETTINGS)
        if new is not None:
            assignment.place(Waiting(group, list(group.job_ids), *new), buy=True)
    before = {each.job_id: each for each in assignment.placed}
    improve(assignment)

    after = {each.job_id: each for each in assignment.placed}
    assert after.keys() == before.keys()

    usd, usd_before = (sum(each.usd for each in placed.values()) for placed in (after, before))
    assert usd < usd_before or after == before

    bought = {bin_.order: Bin.of("", bin_.offering) for bin_ in assignment.bought}
    for each in assignment.placed:
        for bin_ in each.bins:
            if bin_.order in bought:
                assert bought[bin_.order].fits(each.group)
                bought[bin_.order].add(each.group)
    assert not any(bin_.empty for bin_ in bought.values())
    assert len({bin_.order for bin_ in assignment.bought}) == len(assignment.bought)


def test_the_search_finds_what_greedy_packing_misses() -> None:
    # The best first worker has 16 CPUs, all used. Two of 32 CPUs for all jobs are a fifth cheaper than that one and
    # the workers that are then needed for the rest.
    shapes = ((32, 96.0, 1.478), (16, 32.0, 0.637), (2, 4.0, 0.069), (32, 64.0, 1.382))
    offerings = [Offering(f"{cpus}x{gib:g}", cpus, gib, usd / HOUR, 60.0) for cpus, gib, usd in shapes]
    jobs = ((24, 43.7), (16, 32.7), (10, 5.2), (4, 13.2), (3, 3.5), (2, 4.5))
    groups = [Group((str(number),), cpus, gib, certain(4 * HOUR)) for number, (cpus, gib) in enumerate(jobs)]
    assert [each.offering.shape for each in pack(groups, [], offerings, SETTINGS).purchases] == ["32x64", "32x64"]
