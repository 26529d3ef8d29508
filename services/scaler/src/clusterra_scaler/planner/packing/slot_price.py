"""Slot prices: shadow prices of the limit on the number of workers.

Where fewer workers may be bought than the cheapest packing needs, each worker is taken to cost a little more, whatever
its shape. Then fewer and larger workers are bought, and jobs share a worker that would otherwise be kept apart.
Afterwards each worker becomes the cheapest shape that holds its jobs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from clusterra_scaler.planner.packing.assignment import Assignment
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Offering
from clusterra_scaler.planner.packing.limits import Limits

_SHARES_OF_DEAREST = (0.25, 1.0, 8.0)
"""The slot prices that are tried, as shares of the dearest shape's price. At the last one hardly anything else
counts."""


def slot_prices(offerings: Sequence[Offering]) -> tuple[float, ...]:
    """The slot prices to try, in USD per second, ascending."""
    dearest = max((each.usd_per_second for each in offerings), default=0.0)
    return tuple([share * dearest for share in _SHARES_OF_DEAREST])


def with_slot_price(offering: Offering, slot_usd: float) -> Offering:
    """The offering with `slot_usd` per second added to its price."""
    return replace(offering, usd_per_second=offering.usd_per_second + slot_usd) if slot_usd else offering


def downsize(assignment: Assignment, offerings: Sequence[Offering], limits: Limits) -> None:
    """Make each bought worker the cheapest shape that holds its jobs and that the limits allow one more of."""
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
