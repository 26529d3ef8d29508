"""What a place for a worker is worth, where fewer workers may be had than would be cheapest.

Each worker is then taken to cost a little more, whatever its shape: so fewer and larger ones are bought, and jobs go
together that would else be kept apart. Afterwards each worker becomes the cheapest that holds its jobs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from clusterra_scaler.planner.packing.assignment import Assignment
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Offering
from clusterra_scaler.planner.packing.limits import Limits

_PRICES = (0.25, 1.0, 8.0)
"""What a place may cost, by the price of the dearest shape. At the last of them hardly anything else counts."""


def prices_of_a_place(offerings: Sequence[Offering]) -> tuple[float, ...]:
    """In USD per second, the lowest first."""
    dearest = max((each.usd_per_second for each in offerings), default=0.0)
    return tuple([share * dearest for share in _PRICES])


def with_place(offering: Offering, usd_per_second: float) -> Offering:
    """A shape whose workers cost so much more."""
    return replace(offering, usd_per_second=offering.usd_per_second + usd_per_second) if usd_per_second else offering


def trim(assignment: Assignment, offerings: Sequence[Offering], limits: Limits) -> None:
    """Make each bought worker the cheapest one that holds its jobs, of a shape of which there may be one more."""
    used: dict[int, tuple[int, float, int]] = {bin_.order: (0, 0.0, 0) for bin_ in assignment.bought}
    allowed: dict[int, frozenset[str]] = {}
    for placed in assignment.placed:
        group = placed.group
        for bin_ in placed.bins:
            if bin_.order in used:
                cpus, memory_gib, gpus = used[bin_.order]
                used[bin_.order] = cpus + group.cpus, memory_gib + group.memory_gib, gpus + group.gpus
                if group.shapes is not None:
                    allowed[bin_.order] = allowed.get(bin_.order, group.shapes) & group.shapes
    counts = Counter(bin_.offering.shape for bin_ in assignment.bought)
    cheapest_first = sorted(offerings, key=attrgetter("usd_per_second"))
    for bin_ in assignment.bought:
        cpus, memory_gib, gpus = used[bin_.order]
        own = bin_.offering.shape
        bin_.offering = next(
            offering
            for offering in cheapest_first
            if cpus <= offering.cpus
            and memory_gib <= offering.memory_gib + ROUNDING_GIB
            and gpus <= offering.gpus
            and offering.shape in allowed.get(bin_.order, (offering.shape,))
            and (offering.shape == own or counts[offering.shape] < limits.of_shape.get(offering.shape, counts.total()))
        )
        counts[own] -= 1
        counts[bin_.offering.shape] += 1
