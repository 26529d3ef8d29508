"""The lower bound on the cost of bundles."""

from random import Random

from clusterra_scaler.planner.estimates.remaining_time import certain
from clusterra_scaler.planner.packing.assignment import Waiting
from clusterra_scaler.planner.packing.bins import cheapest_new_worker
from clusterra_scaler.planner.packing.bundle_bound import BundleBound
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.trial_bin import TrialBin
from hypothesis import given
from hypothesis import strategies as st
from packing_examples import OFFERINGS, any_groups

SETTINGS = Settings()


@given(any_groups(), st.integers(0, 2**32))
def test_no_bundle_costs_less_than_its_lower_bound(groups: list[Group], seed: int) -> None:
    single = [group for group in groups if group.nodes == 1 and not group.exclusive]
    waiting = [
        Waiting(group, list(group.job_ids), *new)
        for group in single
        if (new := cheapest_new_worker(group, OFFERINGS, SETTINGS))
    ]
    jobs = [each for each in waiting for _ in each.job_ids]
    chance = Random(seed)
    for offering in OFFERINGS:
        trial, inside, usd = TrialBin(offering, SETTINGS), list[Waiting](), list[float]()
        for each in chance.sample(jobs, len(jobs)):
            added = trial.add(each.group)
            if added is not None:
                usd.append(added)
                inside.append(each)
        if inside:
            share = sum(usd) / sum(each.new_usd for each in inside)
            assert BundleBound.of(waiting).least_share(inside[0], offering, usd[0]) <= share + 1e-9


def test_the_bound_of_free_jobs_is_zero() -> None:
    free = Waiting(Group(("1",), 4, 1.0, certain(0.0)), ["1"], 0.0, OFFERINGS[0])
    assert BundleBound.of([free]).least_share(free, OFFERINGS[0], 0.0) == 0.0
