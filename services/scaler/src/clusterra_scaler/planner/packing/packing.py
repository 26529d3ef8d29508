"""Pending jobs onto open workers and, for those that nobody takes cheaply, onto new ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from clusterra_scaler.planner.packing.bounds import UNBOUNDED, Bounds
from clusterra_scaler.planner.packing.bundles import buy_bundles
from clusterra_scaler.planner.packing.filling import Filling, Waiting
from clusterra_scaler.planner.packing.revision import revise
from clusterra_scaler.planner.packing.rooms import Room, cheapest_new
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.turns import fill_in_turns
from clusterra_scaler.planner.packing.vectors import ROUNDING_GIB, Group, Offering

LEAST_LOOKS = 16
"""So many of the open rooms are looked at for every group."""
_NOTHING: Mapping[str, float] = MappingProxyType({})


class Placement(NamedTuple):
    """A job and its rooms, one for each node, with the USD it is expected to add."""

    job_id: str
    rooms: tuple[str, ...]
    usd: float


class Purchase(NamedTuple):
    """A worker to buy, and the room by which placements name it."""

    room: str
    offering: Offering


@dataclass(frozen=True, slots=True)
class Packing:
    """Where jobs go and what is bought for them."""

    placements: tuple[Placement, ...]
    purchases: tuple[Purchase, ...]
    impossible: tuple[str, ...]
    """Jobs that no shape holds."""
    unaffordable: tuple[str, ...] = ()
    """Jobs that get nothing because of the bounds."""


def pack(
    groups: Iterable[Group],
    rooms: Iterable[Room],
    offerings: Sequence[Offering],
    settings: Settings,
    bounds: Bounds = UNBOUNDED,
    running: Mapping[str, float] = _NOTHING,
) -> Packing:
    """Place every job that some shape holds, for the least expected cost, a job of several nodes whole.

    No placement costs more than a new worker for each node of its job. Those with the most CPU seconds choose first.
    The same arguments give the same answer, and are left as they are; between equal prices the earlier room goes first.

    Where what would be bought is more than the bounds allow, owners take turns instead, each job the cheapest that may
    still be bought. `running` is what each owner has already, in USD per hour.
    """
    ordered = sorted(groups, key=lambda each: (-each.remaining.mean_seconds * each.cpus, each.job_ids[0]))
    opened = _with_room(rooms, ordered)
    looks = max(LEAST_LOOKS, settings.looks // 4 // max(1, len(ordered)))
    filling = Filling([room.copy() for room in opened], bounds.buyable(offerings), settings, looks)
    left = _fill(ordered, filling)
    impossible = [group for group in left if not any(map(group.runs_on, offerings))]
    out = set(map(id, impossible))
    if bounds.allow([room.offering for room in filling.bought]):
        queue = [group for group in left if id(group) not in out]
    else:
        queue = [group for group in ordered if id(group) not in out]
        filling = Filling([room.copy() for room in opened], offerings, settings, looks)
    unaffordable = fill_in_turns(queue, filling, offerings, bounds, running)
    return Packing(
        tuple([Placement(job_id, tuple([room.id for room in at]), usd) for _, job_id, at, usd in filling.placed]),
        tuple([Purchase(room.id, room.offering) for room in filling.bought]),
        tuple([job_id for group in impossible for job_id in group.job_ids]),
        unaffordable,
    )


def _with_room(rooms: Iterable[Room], groups: Sequence[Group]) -> list[Room]:
    """Those that are not full for all of them: of thousands of workers most are."""
    cpus = min((group.cpus for group in groups), default=0)
    memory_gib = min((group.memory_gib for group in groups), default=0.0) - ROUNDING_GIB
    return [room for room in rooms if room.cpus >= cpus and room.memory_gib >= memory_gib and not room.exclusive]


def _fill(groups: Iterable[Group], filling: Filling) -> list[Group]:
    """Place all the jobs, and answer those that no shape holds."""
    waiting: list[Waiting] = []
    left: list[Group] = []
    for group in groups:
        new = cheapest_new(group, filling.offerings, filling.settings)
        if new is None:
            left.append(group)
            continue
        jobs = Waiting(group, list(group.job_ids), *new)
        filling.place(jobs)
        if jobs.job_ids:
            waiting.append(jobs)
    if filling.settings.joint:
        buy_bundles(waiting, filling)
    for jobs in waiting:
        filling.place(jobs, buy=True)
    if filling.settings.joint:
        revise(filling)
    return left
