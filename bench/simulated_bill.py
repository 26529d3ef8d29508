"""Splits the bill of a simulation as the ledger splits a real one: shares of jobs, boot, idle."""

from collections import defaultdict
from collections.abc import Iterable

from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.result import Result

PURPOSES = ("job", "boot", "idle", "unattributed")


def simulated_bill(result: Result, catalogue: Catalogue) -> dict[str, float]:
    """The simulated bill in USD by the purposes of the ledger: a job pays its dominant share of its worker."""
    parts = dict.fromkeys(PURPOSES, 0.0)
    runs: defaultdict[int, list[tuple[float, float, float]]] = defaultdict(list)
    shapes = {worker.id: catalogue[worker.shape] for worker in result.workers}
    for run in result.jobs:
        for part in run.parts:
            shape = shapes[part.worker]
            share = max(part.cpus / shape.cpus, part.memory_gib / shape.memory_gib)
            runs[part.worker].append((run.start, run.end, share))
    for worker in result.workers:
        shape = shapes[worker.id]
        seconds = _shared_seconds(runs[worker.id])
        boot = min(worker.launch + shape.boot_seconds, worker.release) - worker.launch
        parts["job"] += seconds * shape.usd_per_second
        parts["boot"] += boot * shape.usd_per_second
        parts["idle"] += (worker.release - worker.launch - boot - seconds) * shape.usd_per_second
    return parts


def _shared_seconds(runs: Iterable[tuple[float, float, float]]) -> float:
    """For how many seconds of the whole worker its jobs pay, by the start, the end and the share of each."""
    changes = sorted([(start, share) for start, _, share in runs] + [(end, -share) for _, end, share in runs])
    seconds = total = since = 0.0
    for at, share in changes:
        seconds += min(1.0, max(0.0, total)) * (at - since)
        total, since = total + share, at
    return seconds
