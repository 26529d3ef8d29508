"""Generic resources: what a job asks for as its share of one node, and what of that a node has free.

What a node has is a mapping from name and type to a number, as in `NodeState.gres`: `{"gpu:h100": 8}`. A job that asks
for a type gets that type; one that asks for none gets any, also of several types.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

type Free = Mapping[str, int]
"""By name and type, how many there are or are left."""

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


def gpus_of(has: Free) -> int:
    """The same of what there is."""
    return sum(count for name, count in has.items() if name.partition(":")[0] == GPU)


def names_a_type(asked: tuple[Gres, ...]) -> bool:
    """Whether not any type will do."""
    return any(":" in each.name for each in asked)


@lru_cache(maxsize=256)
def of_worker(text: str) -> Free:
    """What a worker has, by `WorkerSpec.gres`."""
    counts: Counter[str] = Counter()
    for item in filter(None, text.split(",")):
        name, _, count = item.rpartition(":")
        counts[name] += int(count)
    return counts


def asking_for(has: Free) -> tuple[Gres, ...]:
    """As if a job asked for so much."""
    return tuple(Gres(name, count) for name, count in has.items())


def typed(has: Free, worker: Free) -> Free:
    """What a node has, with the types that a worker of its shape has where Slurm tells none."""
    kinds: Counter[str] = Counter()
    for name, count in worker.items():
        kinds[name.partition(":")[0]] += count
    return worker if has == kinds else has


def side_by_side(asked: tuple[Gres, ...], free: Free) -> int:
    """How many jobs that ask for so much, at least for one of something, have room at once."""
    if len(asked) == 1:
        return _left_of(asked[0].name, free) // asked[0].count
    counts: Counter[str] = Counter()
    for each in asked:
        kind, colon, _ = each.name.partition(":")
        counts[kind] += each.count
        if colon:
            counts[each.name] += each.count
    return min(_left_of(name, free) // count for name, count in counts.items())


def fits(asked: tuple[Gres, ...], free: Free) -> bool:
    """Whether there is room for a job that asks for so much."""
    if len(asked) == 1:
        return _left_of(asked[0].name, free) >= asked[0].count
    return not asked or sum(without(asked, free).values()) == sum(free.values()) - sum(each.count for each in asked)


def without(taken: Iterable[Gres], free: Free) -> Free:
    """What is left beside what is taken, as far as it was there.

    What has no type is taken where most is left; of what is there without a type any type is taken.
    """
    left = dict(free)
    # Who asks for no type can use what the others leave.
    for each in sorted(taken, key=lambda each: ":" not in each.name):
        count = each.count
        for name in sorted(_of_kind(each.name, left), key=lambda name: (-left[name], name)):
            found = min(count, left[name])
            left[name] -= found
            count -= found
    return left


def _of_kind(name: str, free: Free) -> list[str]:
    kind, colon, _ = name.partition(":")
    return [other for other in free if other == name or (not colon and other.partition(":")[0] == kind)]


def _left_of(name: str, free: Free) -> int:
    left = free.get(name, 0)
    if ":" not in name:
        kind = f"{name}:"
        for other, count in free.items():
            if other.startswith(kind):
                left += count
    return left


def _items(text: str) -> Iterator[Asked]:
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise UnreadableGres(f"the generic resources cannot be read: {item!r}")
        per: Literal["node", "task", "job"] = "node" if match[1] == "node" else "task" if match[1] == "task" else "job"
        yield Asked(per, Gres(match[2], int(match[3])))
