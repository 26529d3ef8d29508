"""Reads how many nodes a job wants, as Slurm does: `2`, `2-4`, `1,2,4` or `2-8:2`."""

import re
from dataclasses import dataclass

MAX_NODES = 2**31 - 1
MAX_LISTED = 16_384
"""Slurm keeps a list as bits: each number of a list is below this one."""

_COUNT = re.compile(r"\s*([+-]?[0-9]{1,18})([kK]?[mM]?)\s*", re.ASCII)
_LISTED = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5})(?::([0-9]{1,5}))?)?")


@dataclass(frozen=True)
class NodeCount:
    """How many nodes a job wants."""

    fewest: int
    most: int | None
    """None: any number."""
    text: str
    """As slurmrestd takes it."""


def parse(text: str) -> NodeCount:
    """Read a number, a range or a list of numbers. Raises ValueError for another text."""
    if "," in text or ":" in text:
        return _listed(text)
    first, dash, last = text.partition("-")
    if not dash:
        count = _count(text)
        if count is None or count < 0:
            raise ValueError("must be a number of nodes, such as 2 or 2-4")
        return NodeCount(count, count, str(count))
    fewest, most = (_count(each) if each.strip(" \t\n\v\f\r") else -1 for each in (first, last))
    if fewest is None or most is None:
        raise ValueError("must be a number of nodes, such as 2 or 2-4")
    fewest = 1 if fewest < 0 else fewest
    if most and most < fewest:
        raise ValueError(f"the most nodes are fewer than the fewest, {fewest}")
    return NodeCount(fewest, most or None, f"{fewest}-{most}")


def _count(text: str) -> int | None:
    found = _COUNT.fullmatch(text)
    if found is None:
        return None
    units = found[2].lower()
    count = int(found[1]) * (1024 if "k" in units else 1) * (1024**2 if "m" in units else 1)
    if count > MAX_NODES:
        raise ValueError(f"must be at most {MAX_NODES} nodes")
    return count


def _listed(text: str) -> NodeCount:
    counts: list[int] = []
    for item in text.split(","):
        found = _LISTED.fullmatch(item)
        if found is None:
            raise ValueError("must be a list of numbers of nodes, such as 1,2,4 or 2-8:2")
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        # Slurm does not count the end of a range with a step.
        last -= found[3] is not None
        if last < first or not step or last >= MAX_LISTED:
            raise ValueError("must be a list of numbers of nodes, such as 1,2,4 or 2-8:2")
        counts += (first, first + (last - first) // step * step)
    return NodeCount(min(counts), max(counts), text)
