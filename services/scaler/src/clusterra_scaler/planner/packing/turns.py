"""Who is served where not all can be: owners take turns, job by job."""

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from clusterra_scaler.planner.packing.bounds import Bounds
from clusterra_scaler.planner.packing.filling import Filling, Waiting
from clusterra_scaler.planner.packing.rooms import Room, cheapest_new
from clusterra_scaler.planner.packing.vectors import Group, Offering

_HOUR = 3600.0


def fill_in_turns(
    groups: Sequence[Group],
    filling: Filling,
    offerings: Sequence[Offering],
    bounds: Bounds,
    running: Mapping[str, float],
) -> tuple[str, ...]:
    """Place jobs and buy for them within the bounds, and answer those that get nothing because of the bounds.

    The next job is always one of the owner who has the least so far, in USD per hour: what is running for him, and his
    share of each worker that a job of his was given. An owner's own jobs come in the order of the groups. A job for
    which its best shape may not be bought gets the next best. Some of `offerings` must hold each job.
    """
    queues: dict[str, deque[tuple[Group, str]]] = {}
    for group in groups:
        queues.setdefault(group.owner, deque()).extend((group, job_id) for job_id in group.job_ids)
    turns = [(running.get(owner, 0.0), number, owner) for number, owner in enumerate(queues)]
    heapify(turns)
    shop = _Shop(offerings, bounds.after([room.offering for room in filling.bought]))
    refused: list[str] = []
    hopeless: set[int] = set()
    while turns:
        usd_per_hour, number, owner = heappop(turns)
        group, job_id = queues[owner].popleft()
        if id(group) not in hopeless:
            rooms = shop.serve(group, job_id, filling)
            usd_per_hour += sum(_share(group, room) for room in rooms)
            if not rooms:
                # What may be bought only gets less.
                hopeless.add(id(group))
        if id(group) in hopeless:
            refused.append(job_id)
        if queues[owner]:
            heappush(turns, (usd_per_hour, number, owner))
    return tuple(refused)


class _Shop:
    """What may still be bought."""

    def __init__(self, offerings: Sequence[Offering], bounds: Bounds) -> None:
        self._offerings = offerings
        self._bounds = bounds
        self._buyable = bounds.buyable(offerings)

    def serve(self, group: Group, job_id: str, filling: Filling) -> tuple[Room, ...]:
        """Place the job and answer its rooms; none where too few are cheap and too few may be bought."""
        settings = filling.settings
        new = cheapest_new(group, self._buyable, settings)
        usd, offering = new or cheapest_new(group, self._offerings, settings) or (0.0, self._offerings[0])
        missing = group.nodes - len(filling.cheap(group, usd))
        if missing > 1:
            new = cheapest_new(group, self._bounds.buyable(self._buyable, missing), settings)
            offering = new[1] if new else offering
        if missing > 0 and new is None:
            return ()
        bought = len(filling.bought)
        filling.place(Waiting(group, [job_id], usd, offering), buy=True)
        if len(filling.bought) > bought:
            self._bounds = self._bounds.after([room.offering for room in filling.bought[bought:]])
            self._buyable = self._bounds.buyable(self._buyable)
        return filling.placed[-1].rooms


def _share(group: Group, room: Room) -> float:
    """What the job takes of a worker, in USD per hour: the price, times the greatest share of what it has."""
    offering = room.offering
    shares = [group.cpus / offering.cpus, group.memory_gib / offering.memory_gib]
    if offering.gpus:
        shares.append(group.gpus / offering.gpus)
    return offering.usd_per_second * _HOUR * (1.0 if group.exclusive else max(shares))
