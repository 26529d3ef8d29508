"""Slurm's spelling of array tasks: `0-2,4` or `0-98:2%5`."""

import re
from collections.abc import Iterable

_ITEM = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def expand(expression: str) -> tuple[int, ...]:
    """The task ids of an expression. Slurm cuts long ones off with `...`: then what is there."""
    tasks: list[int] = []
    for item in expression.partition("%")[0].split(","):
        match = _ITEM.fullmatch(item)
        if match:
            first, last, step = match.groups()
            tasks.extend(range(int(first), int(last or first) + 1, int(step or 1)))
    return tuple(tasks)


def ranges(tasks: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Task ids as the first and the last of each row of numbers without a gap."""
    found: list[tuple[int, int]] = []
    for task in sorted(set(tasks)):
        if found and found[-1][1] == task - 1:
            found[-1] = found[-1][0], task
        else:
            found.append((task, task))
    return tuple(found)


def format_tasks(tasks: Iterable[int]) -> str:
    """Task ids in Slurm's spelling."""
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges(tasks))


def from_bitmap(bitmap: str) -> str:
    """slurmdbd's hexadecimal bit map in the same spelling: `0x17` is `0-2,4`. What is none is left as it is."""
    if not re.fullmatch(r"0x[0-9A-Fa-f]+", bitmap):
        return bitmap
    bits = int(bitmap, 16)
    return format_tasks(tuple(task for task in range(bits.bit_length()) if bits >> task & 1))
