"""A fixed fleet of equal nodes: how long jobs wait there, and how many nodes are needed.

The queue is first come, first served among the jobs that fit, as in the simulator's cluster: a job that does not fit
holds nothing up, and no node is reserved for it, so there is neither a head of the queue nor backfill around it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush, nsmallest
from math import ceil, inf

from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Offering

from clusterra_planner_tools.simulate.trace import Job

_ROUNDED_GIB = 2
"""Memory is rounded up to this part of a GiB, so that there are few kinds of jobs."""
_QUEUED = 20_000
"""A longer queue is never worked off, and takes long to simulate."""
_EXAMINED = 64
"""How many kinds of waiting jobs are tried when a job ends, the oldest first."""
type _Kind = tuple[int, int, float, int, bool]
"""Nodes, CPUs, GiB and GPUs per node, and whether the job shares no node."""


class TooManyWait(Exception):
    """More jobs wait for longer than is allowed, or wait at all than can be simulated."""


class _Fleet:
    """The nodes. Those with as many free CPUs as each other are kept together."""

    def __init__(self, offering: Offering, nodes: int) -> None:
        self._most = offering
        self._memory = [offering.memory_gib] * nodes
        self._gpus = [offering.gpus] * nodes
        self._cpus = [offering.cpus] * nodes
        self._by_cpus: list[dict[int, None]] = [{} for _ in range(offering.cpus + 1)]
        self._by_cpus[offering.cpus] = dict.fromkeys(range(nodes))

    def place(self, kind: _Kind) -> list[int] | None:
        """Take nodes for a job, the fullest ones first; None if it does not fit."""
        nodes, cpus, memory, gpus, alone = kind
        found: list[int] = []
        for free in range(self._most.cpus if alone else cpus, self._most.cpus + 1):
            for node in self._by_cpus[free]:
                if memory <= self._memory[node] + ROUNDING_GIB and gpus <= self._gpus[node]:
                    found.append(node)
                    if len(found) == nodes:
                        self.change(found, kind, -1)
                        return found
        return None

    def change(self, nodes: Sequence[int], kind: _Kind, sign: int) -> None:
        """Take from nodes (-1) or give back (+1) what a job needs."""
        _, cpus, memory, gpus, alone = kind
        for node in nodes:
            del self._by_cpus[self._cpus[node]][node]
            self._cpus[node] += sign * (self._most.cpus if alone else cpus)
            self._memory[node] += sign * memory
            self._gpus[node] += sign * gpus
            self._by_cpus[self._cpus[node]][node] = None

    def holds(self, kind: _Kind, node: int) -> bool:
        """Whether one node's share of a job fits there."""
        _, cpus, memory, gpus, alone = kind
        return (
            (self._most.cpus if alone else cpus) <= self._cpus[node]
            and memory <= self._memory[node] + ROUNDING_GIB
            and gpus <= self._gpus[node]
        )


def waits(
    jobs: Sequence[Job], offering: Offering, nodes: int, patience: float = inf, impatient: int = 0
) -> tuple[list[float], float]:
    """The waits of the jobs in seconds, and when the last one ends. Jobs are in order of submission.

    Raises TooManyWait as soon as more than `impatient` of them have waited for longer than `patience`, or if a job
    needs more nodes than there are, or if the queue becomes too long.
    """
    fleet = _Fleet(offering, nodes)
    queues: dict[_Kind, deque[Job]] = {}
    ends: list[tuple[float, int, _Kind, list[int]]] = []
    waited: list[float] = []
    late = 0

    def start(job: Job, kind: _Kind, places: list[int], now: float) -> None:
        nonlocal late
        heappush(ends, (now + job.run_seconds, len(waited), kind, places))
        waited.append(now - job.submit)
        if now - job.submit > patience:
            late += 1
            if late > impatient:
                raise TooManyWait

    def end_until(moment: float) -> float:
        now = 0.0
        while ends and ends[0][0] <= moment:
            now, _, kind, places = heappop(ends)
            fleet.change(places, kind, 1)
            freed = set(places)
            while ends and ends[0][0] == now:
                _, _, kind, places = heappop(ends)
                fleet.change(places, kind, 1)
                freed.update(places)
            if queues:
                _start_waiting(queues, fleet, freed, now, start)
        return now

    for number, job in enumerate(jobs):
        if job.nodes > nodes:
            raise TooManyWait
        end_until(job.submit)
        kind = _kind(job, offering)
        places = None if kind in queues else fleet.place(kind)
        if places is None:
            queues.setdefault(kind, deque()).append(job)
            if number + 1 - len(waited) > _QUEUED:
                raise TooManyWait
        else:
            start(job, kind, places, job.submit)
    return waited, end_until(inf)


def _start_waiting(
    queues: dict[_Kind, deque[Job]],
    fleet: _Fleet,
    freed: set[int],
    now: float,
    start: Callable[[Job, _Kind, list[int], float], None],
) -> None:
    """Start waiting jobs on the nodes that were freed, the oldest first."""
    candidates = [kind for kind in queues if kind[0] > 1 or any(fleet.holds(kind, node) for node in freed)]
    candidates = nsmallest(_EXAMINED, candidates, key=lambda kind: queues[kind][0].submit)
    while candidates:
        kind = candidates.pop(0)
        places = fleet.place(kind)
        if places is None:
            continue
        queue = queues[kind]
        start(queue.popleft(), kind, places, now)
        if not queue:
            del queues[kind]
            continue
        oldest = queue[0].submit
        at = next((place for place, each in enumerate(candidates) if queues[each][0].submit > oldest), len(candidates))
        candidates.insert(at, kind)


def _kind(job: Job, offering: Offering) -> _Kind:
    memory = min(ceil(job.memory_gib * _ROUNDED_GIB) / _ROUNDED_GIB, offering.memory_gib)
    return job.nodes, job.cpus, memory, job.gpus, job.exclusive


def peak_nodes(jobs: Sequence[Job], offering: Offering) -> int:
    """The fewest nodes that could hold all jobs if each started at once, if jobs could be cut to fill nodes."""
    changes: list[tuple[float, float, float, float]] = []
    most_nodes = 1
    for job in jobs:
        of_cpus = job.nodes * (offering.cpus if job.exclusive else job.cpus)
        of_gib, of_gpus = job.nodes * job.memory_gib, job.nodes * job.gpus
        changes.append((job.submit, of_cpus, of_gib, of_gpus))
        changes.append((job.submit + job.run_seconds, -of_cpus, -of_gib, -of_gpus))
        most_nodes = max(most_nodes, job.nodes)
    changes.sort()
    cpus = memory = gpus = peak = 0.0
    for _, more_cpus, more_gib, more_gpus in changes:
        cpus, memory, gpus = cpus + more_cpus, memory + more_gib, gpus + more_gpus
        peak = max(peak, cpus / offering.cpus, memory / offering.memory_gib, gpus / (offering.gpus or 1))
    return max(most_nodes, ceil(peak - 1e-6))


def fewest_nodes(
    jobs: Sequence[Job], offering: Offering, patience: float, share: float, tried: Callable[[], None] = lambda: None
) -> int:
    """The fewest nodes with which at most this share of the jobs waits for longer than `patience`, by binary search.

    A fleet of more than 100 nodes is found to within one hundredth. `tried` is called after each simulated fleet.
    """
    impatient = int(share * len(jobs))

    def suffice(nodes: int) -> bool:
        try:
            waits(jobs, offering, nodes, patience, impatient)
        except TooManyWait:
            return False
        finally:
            tried()
        return True

    low, high = 0, peak_nodes(jobs, offering)
    while not suffice(high):
        # Jobs cannot be cut, so the peak may take more nodes than their sum.
        low, high = high, high + max(1, high // 4)
    # Down by steps: far too small a fleet takes long to simulate.
    while high > 1 and low < high * 3 // 4:
        if not suffice(high * 3 // 4):
            low = high * 3 // 4
            break
        high = high * 3 // 4
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if suffice(middle) else (middle, high)
    return high
