"""Offerings, groups, bins and limits for the tests of the packing."""

from clusterra_scaler.planner.estimates.remaining_time import MIDDLES, Remaining, certain, expected
from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.limits import Limits
from hypothesis import strategies as st

HOUR = 3600.0
OFFERINGS = (
    Offering("compute-4", 4, 8.0, 0.145 / HOUR, 60.0),
    Offering("compute-16", 16, 32.0, 0.58 / HOUR, 60.0),
    Offering("memory-4", 4, 32.0, 0.2142 / HOUR, 60.0),
    Offering("memory-16", 16, 128.0, 0.8568 / HOUR, 60.0),
    Offering("gpu-8", 8, 64.0, 3.06 / HOUR, 60.0, gpus=2),
)


def fading(mean_seconds: float) -> Remaining:
    """A run time whose survival falls linearly to 0 at twice the mean."""
    return expected([max(0.0, 1.0 - middle / (2 * mean_seconds)) for middle in MIDDLES])


remainings = st.one_of(
    st.floats(1.0, 40 * 24 * HOUR).map(certain),
    st.floats(600.0, 10 * 24 * HOUR).map(fading),
)
_vectors = {
    "cpus": st.integers(1, 18),
    "memory_gib": st.floats(0.0, 140.0),
    "gpus": st.sampled_from([0, 0, 0, 0, 1, 2, 3]),
    "remaining": remainings,
    "nodes": st.sampled_from([1, 1, 1, 2, 3]),
    "exclusive": st.sampled_from([False, False, False, True]),
    "owner": st.sampled_from(["", "ada", "bob", "eve"]),
    "shapes": st.sampled_from([None, None, None, frozenset({"memory-16", "gpu-8"}), frozenset({"none"})]),
}


@st.composite
def any_groups(draw: st.DrawFn) -> list[Group]:
    groups = []
    for number in range(draw(st.integers(0, 7))):
        ids = tuple(f"{number}-{job}" for job in range(draw(st.integers(1, 4))))
        groups.append(draw(st.builds(Group, job_ids=st.just(ids), **_vectors)))
    return groups


@st.composite
def any_bins(draw: st.DrawFn) -> list[Bin]:
    bins = []
    for number in range(draw(st.integers(0, 5))):
        bin_ = Bin.of(f"open-{number}", draw(st.sampled_from(OFFERINGS)))
        for job in draw(any_groups()):
            if bin_.fits(job):
                bin_.add(job)
        bins.append(bin_)
    return bins


any_limits = st.builds(
    Limits,
    workers=st.one_of(st.none(), st.integers(0, 12)),
    of_shape=st.dictionaries(st.sampled_from([each.shape for each in OFFERINGS]), st.integers(0, 3)),
    usd_per_hour=st.one_of(st.none(), st.floats(0.0, 8.0)),
)
