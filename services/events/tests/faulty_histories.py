"""Random histories of a fleet with faults: clocks that are wrong and are set, ends that are lost, requeues, replays."""

import random
from collections.abc import Callable
from itertools import pairwise

from clusterra_contracts.events import JOB_ENDS

from .ledger_histories import History, ModelWorker, job_events, worker_events

SECOND, HOUR = 1_000_000, 3_600_000_000
type Clock = Callable[[int], int]
"""What a clock says at a moment."""


def faulty_history(seed: int, *, names: int, runs: int) -> History:
    """A fleet of some names, most of which are two workers' one after the other, and so many runs on them.

    The workers of the history are as they were told: that is what the fleet's bill is about.
    """
    chance = random.Random(seed)
    edge, slurm = _clock(chance), _clock(chance)
    made, fleet = History(), [each for number in range(names) for each in _lives(chance, f"xs-{number}")]
    for worker in fleet:
        _tell_worker(chance, made, worker, edge)
    _end_with_the_next(made)
    job = told = 0
    while told < runs:
        job += 1
        at = chance.randrange(12 * HOUR)
        for restarts in range(chance.choice([1, 1, 1, 2, 9])):
            told += 1
            at = _tell_run(chance, made, (job, restarts, at), fleet, slurm)
    made.events += chance.choices(made.events, k=len(made.events) // 5)
    chance.shuffle(made.events)
    return made


def _clock(chance: random.Random) -> Clock:
    """A clock that is up to an hour wrong, and is set at some time."""
    first, second = (chance.choice([0, chance.randrange(-HOUR, HOUR)]) for _ in range(2))
    step = chance.randrange(12 * HOUR)
    return lambda at: at + (first if at < step else second)


def _lives(chance: random.Random, name: str) -> list[ModelWorker]:
    start, lives = chance.randrange(3 * HOUR), list[ModelWorker]()
    for _ in range(chance.choice([1, 2])):
        end = start + chance.randrange(60 * SECOND, 5 * HOUR)
        prices = [(start, chance.randrange(5_000_000))]
        prices += [(chance.randrange(start, end), chance.randrange(5_000_000)) for _ in range(chance.randrange(3))]
        lives.append(ModelWorker(name, start, end, prices, chance.choice([1, 2, 7, 96])))
        start = end + chance.randrange(1, HOUR)
    return lives


def _tell_worker(chance: random.Random, made: History, worker: ModelWorker, clock: Clock) -> None:
    """Tell of a worker by the clock of the edge; its end may be lost."""
    prices = {clock(at): usd for at, usd in worker.prices}
    start, end = clock(worker.start), clock(worker.end or 0) if chance.random() < 0.9 else None
    as_told = ModelWorker(
        worker.name, start, None if end is None else max(start, end), sorted(prices.items()), worker.cpus
    )
    made.workers.append(as_told)
    made.events += worker_events(as_told)


def _end_with_the_next(made: History) -> None:
    """One worker at a time has a name."""
    ordered = sorted(made.workers, key=lambda each: (each.name, each.start))
    for worker, following in pairwise(ordered):
        if worker.name == following.name:
            worker.end = following.start if worker.end is None else min(worker.end, following.start)


def _tell_run(
    chance: random.Random, made: History, run: tuple[int, int, int], fleet: list[ModelWorker], clock: Clock
) -> int:
    """Tell of a run by the clock of Slurm, and return when its job may run again; its end may be lost."""
    job, restarts, at = run
    able = [each for each in chance.sample(fleet, k=min(len(fleet), 8)) if each.is_there(at)] or fleet[:1]
    end = at + chance.choice([0, chance.randrange(60 * SECOND), chance.randrange(3 * HOUR)])
    size = (chance.randrange(1, 97), chance.randrange(1, 20_000))
    nodes = tuple(dict.fromkeys(each.name for each in able[: chance.choice([1, 1, 2])]))
    events = job_events(job, restarts, nodes, (clock(at), clock(end)), size)
    made.events += [each for each in events if each.kind not in JOB_ENDS or chance.random() < 0.8]
    return end + chance.randrange(60 * SECOND)
