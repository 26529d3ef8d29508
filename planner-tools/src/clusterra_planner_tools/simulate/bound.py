"""The fluid bound: a lower bound on the cost of a schedule's run intervals.

At each instant it is the price of the cheapest fleet of fractional workers that holds what runs, with free migration
and no boots.

At an instant with demand d this is the linear program min price·n with cpus·n >= d_cpus, memory·n >= d_memory, n >= 0.
Its dual is max y·d over {y >= 0: y·shape <= price for each shape}, a polygon that is the same at all times: the value
is the maximum over its few corners, so no program needs to be solved. It bounds every packing of the same run
intervals from below.
"""

from collections.abc import Iterable, Sequence

from clusterra_scaler.planner.packing.items import Offering

_RELATIVE = 1e-9
type Corner = tuple[float, float]
"""Dual prices: USD per second of one CPU and of one GiB."""


def corners(offerings: Sequence[Offering]) -> list[Corner]:
    """The corners of the dual polygon."""
    candidates: list[Corner] = []
    for number, one in enumerate(offerings):
        candidates += [(one.usd_per_second / one.cpus, 0.0), (0.0, one.usd_per_second / one.memory_gib)]
        for other in offerings[number + 1 :]:
            determinant = one.cpus * other.memory_gib - one.memory_gib * other.cpus
            if abs(determinant) > _RELATIVE * one.cpus * other.memory_gib:
                candidates.append(
                    (
                        (one.usd_per_second * other.memory_gib - other.usd_per_second * one.memory_gib) / determinant,
                        (one.cpus * other.usd_per_second - other.cpus * one.usd_per_second) / determinant,
                    )
                )
    return sorted({corner for corner in candidates if _is_feasible(corner, offerings)})


def usd_per_second(cpus: float, memory_gib: float, at: Iterable[Corner]) -> float:
    """The price of the cheapest fractional fleet for a demand; `at` are the corners of the dual polygon."""
    return max(of_cpu * cpus + of_gib * memory_gib for of_cpu, of_gib in at)


def _is_feasible(corner: Corner, offerings: Sequence[Offering]) -> bool:
    of_cpu, of_gib = corner
    return (
        of_cpu >= 0.0
        and of_gib >= 0.0
        and all(
            of_cpu * each.cpus + of_gib * each.memory_gib <= each.usd_per_second * (1.0 + _RELATIVE)
            for each in offerings
        )
    )
