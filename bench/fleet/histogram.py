"""Quantiles of a Prometheus histogram, interpolated within a bucket as `histogram_quantile` does."""

import math
from collections.abc import Mapping


def quantile_ms(counts: Mapping[float, float], quantile: float) -> float | None:
    """The quantile in milliseconds, from cumulative counts by upper bound in seconds; None without observations."""
    bounds = sorted(counts)
    total = counts[bounds[-1]] if bounds else 0.0
    if total <= 0:
        return None
    rank, below, lower = quantile * total, 0.0, 0.0
    for bound in bounds:
        if counts[bound] >= rank:
            if math.isinf(bound):
                return round(lower * 1000, 1)
            share = (rank - below) / (counts[bound] - below)
            return round((lower + (bound - lower) * share) * 1000, 1)
        below, lower = counts[bound], bound
    raise AssertionError("unreachable: the last bucket has all observations")
