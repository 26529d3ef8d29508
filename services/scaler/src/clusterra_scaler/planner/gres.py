"""Generic resources that a job asks for, as its share of one node."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

_ITEM = re.compile(r"(node|task|job)/([^=,]+)=(\d+)")
GPU = "gpu"


class UnreadableGres(ValueError):
    """Not in the spelling of `PendingJobs.gres`."""


@dataclass(frozen=True, slots=True)
class Gres:
    """So many of one kind; `name` is `gpu`, or with a type `gpu:h100`."""

    name: str
    count: int

    def __str__(self) -> str:
        return f"{self.name}:{self.count}"


class Asked(NamedTuple):
    """One item of what a job asks for."""

    per: Literal["node", "task", "job"]
    gres: Gres


def read(text: str) -> tuple[Asked, ...]:
    """The items of `PendingJobs.gres`. Raises UnreadableGres."""
    return tuple(_items(text)) if text else ()


def on_node(asked: tuple[Asked, ...], tasks: int, nodes: int) -> tuple[Gres, ...]:
    """What one of `nodes` nodes must have at most, where it runs `tasks` tasks, in the order of the names."""
    if not asked:
        return ()
    counts: Counter[str] = Counter()
    for per, each in asked:
        shares = {"node": each.count, "task": each.count * tasks, "job": -(-each.count // nodes)}
        counts[each.name] += shares[per]
    return tuple(Gres(name, count) for name, count in sorted(counts.items()) if count)


def gpus(asked: tuple[Gres, ...]) -> int:
    """How many GPUs, of whatever type."""
    return sum(each.count for each in asked if each.name.partition(":")[0] == GPU)


def _items(text: str) -> Iterator[Asked]:
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise UnreadableGres(f"the generic resources cannot be read: {item!r}")
        per: Literal["node", "task", "job"] = "node" if match[1] == "node" else "task" if match[1] == "task" else "job"
        yield Asked(per, Gres(match[2], int(match[3])))
