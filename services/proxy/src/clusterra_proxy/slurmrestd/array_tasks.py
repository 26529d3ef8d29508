"""Slurm's notation for array tasks: `0-2,4` or `0-98:2%5`."""

import re
from collections.abc import Iterable

MAX_TASK = 4_000_000
"""The highest task id of any array: the bound of Slurm's MaxArraySize."""

_ITEM = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?")
_BITMAP = re.compile(rf"0x[0-9A-Fa-f]{{1,{MAX_TASK // 4 + 1}}}")


def expand(expression: str) -> tuple[int, ...]:
    """Return the task ids of an expression. Slurm truncates a long expression with `...`; the rest is then missing.

    Ids beyond `MAX_TASK` do not exist, and are missing too.
    """
    tasks: list[int] = []
    for item in expression.partition("%")[0].split(","):
        match = _ITEM.fullmatch(item)
        if match:
            first, last, step = match.groups()
            tasks.extend(range(int(first), min(int(last or first), MAX_TASK) + 1, max(int(step or 1), 1)))
            if len(tasks) > MAX_TASK:
                break
    return tuple(tasks)


def count(expression: str) -> int:
    """Return the number of task ids in an expression, without expanding it."""
    total = 0
    for item in expression.partition("%")[0].split(","):
        match = _ITEM.fullmatch(item)
        if match:
            first, last, step = match.groups()
            total += len(range(int(first), min(int(last or first), MAX_TASK) + 1, max(int(step or 1), 1)))
    return total


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
    """Convert slurmdbd's hexadecimal bitmap to Slurm's notation: `0x17` is `0-2,4`. Returns other text unchanged."""
    if not _BITMAP.fullmatch(bitmap):
        return bitmap
    bits = f"{int(bitmap, 16):b}"
    # Shifting the number once for each task would take time by the square of their number.
    return format_tasks(task for task, bit in enumerate(reversed(bits)) if bit == "1")
