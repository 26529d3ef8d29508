"""Pending jobs onto open workers and, for those that nobody takes cheaply, onto new ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterra_scaler.planner.packing.bundles import buy_bundles
from clusterra_scaler.planner.packing.filling import Filling, Waiting
from clusterra_scaler.planner.packing.rooms import Room, cheapest_new
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import Group, Offering


@dataclass(frozen=True, slots=True)
class Placement:
    """A job and its rooms, one for each node, with the USD it is expected to add."""

    job_id: str
    rooms: tuple[str, ...]
    usd: float


@dataclass(frozen=True, slots=True)
class Purchase:
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


def pack(groups: Iterable[Group], rooms: Iterable[Room], offerings: Sequence[Offering], settings: Settings) -> Packing:
    """Place every job that some shape holds, for the least expected cost, a job of several nodes whole.

    No placement costs more than a new worker for each node of its job. Those with the most CPU seconds choose first.
    The same arguments give the same answer, and are left as they are; between equal prices the earlier room goes first.
    """
    filling = Filling([room.copy() for room in rooms], offerings, settings)
    waiting: list[Waiting] = []
    impossible: list[str] = []
    for group in sorted(groups, key=lambda each: (-each.remaining.mean_seconds * each.cpus, each.job_ids[0])):
        new = cheapest_new(group, offerings, settings)
        if new is None:
            impossible += group.job_ids
            continue
        jobs = Waiting(group, list(group.job_ids), *new)
        filling.place(jobs)
        if jobs.job_ids:
            waiting.append(jobs)
    if settings.joint:
        buy_bundles(waiting, filling)
    for jobs in waiting:
        filling.place(jobs, buy=True)
    return Packing(
        tuple(Placement(each.job_id, tuple([room.id for room in each.rooms]), each.usd) for each in filling.placed),
        tuple(Purchase(room.id, room.offering) for room in filling.bought),
        tuple(impossible),
    )
