"""Counts the tasks of an array in Slurm's notation."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


def task_count(tasks: str, apart: Iterable[int] = ()) -> int:
    """The number of tasks in Slurm's notation, such as `0-9:3,12%4`, less those `apart`; 1 where none can be read."""
    ranges = sorted(_ranges(tasks), key=lambda each: each.start)
    if not ranges:
        return 1
    starts = [each.start for each in ranges]
    before = ((task, bisect_right(starts, task)) for task in apart)
    return sum(map(len, ranges)) - sum(place > 0 and task in ranges[place - 1] for task, place in before)


def _ranges(tasks: str) -> Iterator[range]:
    for part in tasks.partition("%")[0].split(","):
        found = _RANGE.fullmatch(part)
        if found is not None:
            first = int(found[1])
            yield range(first, max(int(found[2] or first), first) + 1, max(int(found[3] or 1), 1))
