"""Slurm's notation for array tasks: `0-2,4` or `0-98:2%5`."""

import re
from collections.abc import Iterable

_ITEM = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def expand(expression: str) -> tuple[int, ...]:
    """Return the task ids of an expression. Slurm truncates a long expression with `...`; the rest is then missing."""
    tasks: list[int] = []
    for item in expression.partition("%")[0].split(","):
        match = _ITEM.fullmatch(item)
        if match:
            first, last, step = match.groups()
            tasks.extend(range(int(first), int(last or first) + 1, int(step or 1)))
    return tuple(tasks)


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
    if not re.fullmatch(r"0x[0-9A-Fa-f]+", bitmap):
        return bitmap
    bits = int(bitmap, 16)
    return format_tasks(tuple(task for task in range(bits.bit_length()) if bits >> task & 1))
