"""Slurm's notation for array tasks: `0-2,4` or `0-98:2%5`."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from math import gcd

MAX_TASK = 4_000_000
"""The highest task id of any array: the bound of Slurm's MaxArraySize."""
MAX_TASKS = 1_000_000
"""Maximum number of tasks of one expression. Slurm's MaxJobCount, 10,000 by default, bounds those of all arrays."""
MAX_RANGES = 1000
"""The number of ranges after which an expression made from a bitmap is truncated, as Slurm truncates long ones."""

_ITEM = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?")
_ONES = re.compile("1+")
_BITMAP = re.compile(rf"0x[0-9A-Fa-f]{{1,{MAX_TASK // 4 + 1}}}")


def expand(expression: str) -> tuple[int, ...]:
    """Return the task ids of an expression. Slurm truncates a long expression with `...`; the rest is then missing.

    Ids beyond `MAX_TASK` do not exist, and are missing too. Raises ValueError for more than `MAX_TASKS` tasks.
    """
    check(expression)
    return tuple(task for tasks in _items(expression) for task in tasks)


def check(expression: str) -> None:
    """Raise ValueError for an expression that names more than `MAX_TASKS` tasks: a few bytes can name millions."""
    if count(expression) > MAX_TASKS:
        raise ValueError(f"an array has more than {MAX_TASKS} tasks")


def count(expression: str) -> int:
    """Return the number of task ids in an expression, without expanding it."""
    return sum(len(tasks) for tasks in _items(expression))


def contains(expression: str, task: int) -> bool:
    """Return whether an expression names a task, without expanding it."""
    return any(task in tasks for tasks in _items(expression))


def overlap(expression: str, other: str) -> bool:
    """Return whether two expressions name a common task, without expanding them."""
    others = tuple(_items(other))
    return any(_common(tasks, each) for tasks in _items(expression) for each in others)


def _common(one: range, other: range) -> bool:
    """Whether two ranges have a common number, by the Chinese remainder theorem: their numbers may be a million."""
    step = gcd(one.step, other.step)
    if (other.start - one.start) % step:
        return False
    factor = other.step // step
    turns = (other.start - one.start) // step * pow(one.step // step, -1, factor) % factor
    common, period = one.start + turns * one.step, one.step * factor
    first = max(one.start, other.start)
    if common < first:
        common += -(-(first - common) // period) * period
    return common < min(one.stop, other.stop)


def _items(expression: str) -> Iterator[range]:
    for item in expression.partition("%")[0].split(","):
        match = _ITEM.fullmatch(item)
        if match:
            first, last, step = match.groups()
            yield range(int(first), min(int(last or first), MAX_TASK) + 1, max(int(step or 1), 1))


def truncated(expression: str) -> bool:
    """Return whether Slurm left out the end of a long expression."""
    return "..." in expression


def ranges(tasks: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return task ids as contiguous ranges, each as its first and last id."""
    found: list[tuple[int, int]] = []
    for task in sorted(set(tasks)):
        if found and found[-1][1] == task - 1:
            found[-1] = found[-1][0], task
        else:
            found.append((task, task))
    return tuple(found)


def format_tasks(tasks: Iterable[int]) -> str:
    """Return task ids in Slurm's notation."""
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges(tasks))


def from_bitmap(bitmap: str) -> str:
    """Convert slurmdbd's hexadecimal bitmap to Slurm's notation: `0x17` is `0-2,4`. Returns other text unchanged.

    The text is truncated with `...` after `MAX_RANGES`, or before it would name more than `MAX_TASKS` tasks.
    """
    if not _BITMAP.fullmatch(bitmap):
        return bitmap
    # Shifting the number once for each task would take time by the square of their number.
    bits = f"{int(bitmap, 16):b}"[::-1]
    texts: list[str] = []
    total = 0
    for run in islice(_ONES.finditer(bits), MAX_RANGES + 1):
        first, last = run.start(), run.end() - 1
        total += run.end() - first
        if len(texts) == MAX_RANGES or total > MAX_TASKS:
            texts.append("...")
            break
        texts.append(f"{first}-{last}" if last > first else str(first))
    return ",".join(texts)
