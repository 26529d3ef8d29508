"""Writes a synthetic trace in the Standard Workload Format to standard output, for `make bench-cost`.

Users submit bursts of equal jobs, more of them by day than by night. Run times are lognormal around a mean of each
burst. The same seed gives the same trace.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from math import cos, pi
from operator import itemgetter

DAY = 86400.0
_LIMITS = (1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)
_CPUS = (1, 1, 1, 1, 2, 2, 4, 4, 8, 16)
_GIB_PER_CPU = (1, 1, 2, 2, 4, 4, 6, 8)
_KIB_PER_GIB = 1024 * 1024
_MAX_BURST = 50

type Job = tuple[int, int, int, int, int, int]
"""Submit and run seconds, CPUs, time limit in seconds, KiB per CPU, user."""


def bursts(jobs: int, users: int, jobs_per_day: float, chance: random.Random) -> Iterator[Job]:
    """The jobs, burst by burst. Later jobs of a burst may come after the next burst's first."""
    now, made = 0.0, 0
    while made < jobs:
        size = min(jobs - made, _MAX_BURST, int(chance.paretovariate(1.2)))
        # Three quarters of the mean rate at night, five quarters at noon.
        rate = jobs_per_day / DAY / 3.0 * (1.0 - 0.25 * cos(2 * pi * now / DAY))
        now += chance.expovariate(rate)
        user = int(users * chance.random() ** 2)
        cpus, mean_seconds = chance.choice(_CPUS), chance.lognormvariate(7.0, 1.4)
        kib = int(chance.choice(_GIB_PER_CPU) * chance.uniform(0.5, 1.0) * _KIB_PER_GIB)
        limit = next((each for each in _LIMITS if each > 3 * mean_seconds), _LIMITS[-1])
        submit = now
        for _ in range(size):
            run = max(1, min(limit, int(mean_seconds * chance.lognormvariate(0.0, 0.5))))
            yield int(submit), run, cpus, limit, kib, user + 1
            submit += chance.expovariate(1 / 5.0)
        made += size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=30)
    parser.add_argument("--jobs-per-day", type=float, default=2_000.0, help="roughly")
    parser.add_argument("--seed", type=int, default=1)
    sys.stdout.writelines(lines(**vars(parser.parse_args())))


def lines(jobs: int, users: int = 30, jobs_per_day: float = 2_000.0, seed: int = 1) -> Iterator[str]:
    """The lines of the file."""
    yield f"; a synthetic trace: jobs {jobs}, users {users}, jobs_per_day {jobs_per_day}, seed {seed}\n"
    chance = random.Random(seed)
    made = sorted(bursts(jobs, users, jobs_per_day, chance), key=itemgetter(0))
    for number, (submit, run, cpus, limit, kib, user) in enumerate(made, start=1):
        yield f"{number} {submit} -1 {run} {cpus} -1 -1 {cpus} {limit} {kib} 1 {user} 1 1 1 -1 -1 -1\n"


if __name__ == "__main__":
    main()
