"""Generic resources (GRES): their notations, what a job requests on one node, and what a node has free.

A node's resources are a mapping from name and type to a count, as in `NodeState.gres`: `{"gpu:h100": 8}`. A request
with a type is met by that type only. A request without a type is met by any types, also by several together.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

type GresCounts = Mapping[str, int]
"""Counts by name and type: of all that a node has, or of what is free."""

_ITEM = re.compile(r"(node|task|job)/([^=,]+)=(\d+)")
_COUNT = re.compile(r"([0-9]{1,19})([KMGTP]?)")
_IN_PARENTHESES = re.compile(r"\([^)]*\)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
GPU = "gpu"


class UnreadableGres(ValueError):
    """The text does not have the format of `PendingJobs.gres`."""


@dataclass(frozen=True, slots=True)
class Gres:
    """A count of one resource; `name` is `gpu`, or `gpu:h100` with a type."""

    name: str
    count: int

    def __str__(self) -> str:
        return f"{self.name}:{self.count}"


class GresRequest(NamedTuple):
    """One item of a job's request: a count per node, per task or per job."""

    per: Literal["node", "task", "job"]
    gres: Gres


def parse_request(text: str) -> tuple[GresRequest, ...]:
    """Parse `PendingJobs.gres`. Raises UnreadableGres."""
    return tuple(_items(text)) if text else ()


def needed_on_node(asked: tuple[GresRequest, ...], tasks: int, nodes: int) -> tuple[Gres, ...]:
    """The most that one of `nodes` nodes must have if it runs `tasks` tasks, in the order of the names."""
    if not asked:
        return ()
    counts: Counter[str] = Counter()
    for per, each in asked:
        shares = {"node": each.count, "task": each.count * tasks, "job": -(-each.count // nodes)}
        counts[each.name] += shares[per]
    return tuple(Gres(name, count) for name, count in sorted(counts.items()) if count)


def gpus_of_job(asked: tuple[GresRequest, ...], tasks: int, nodes: int) -> int:
    """The number of GPUs of all types that a job requests over all of its nodes."""
    times = {"node": nodes, "task": tasks, "job": 1}
    return sum(each.count * times[per] for per, each in asked if each.name.partition(":")[0] == GPU)


def gpu_count(asked: tuple[Gres, ...]) -> int:
    """The number of requested GPUs of all types."""
    return sum(each.count for each in asked if each.name.partition(":")[0] == GPU)


def gpu_count_of(has: GresCounts) -> int:
    """The number of GPUs of all types that a node or worker has."""
    return sum(count for name, count in has.items() if name.partition(":")[0] == GPU)


def names_type(asked: tuple[Gres, ...]) -> bool:
    """Whether a request is for resources of certain types."""
    return any(":" in each.name for each in asked)


def gres_counts(text: str) -> dict[str, int]:
    """Parse Slurm's list of a node, such as `gpu:l4:4(S:0),shard:8`, as `NodeState.gres` has it.

    Parentheses hold sockets or indices, which may contain commas.
    """
    counts: dict[str, int] = {}
    for item in filter(None, _IN_PARENTHESES.sub("", text).split(",")):
        name, count = name_and_count(item)
        counts[name] = counts.get(name, 0) + count
    return {name: count for name, count in counts.items() if count}


@lru_cache(maxsize=256)
def parse_spec(text: str) -> GresCounts:
    """Parse `WorkerSpec.gres`, which has the notation of `gres_counts`. A catalogue has few different ones."""
    return gres_counts(text)


def name_and_count(item: str) -> tuple[str, int]:
    """Split Slurm's `gpu:h100:2` into the name with type and the count, by default one."""
    name, _, last = item.rpartition(":")
    counted = _COUNT.fullmatch(last) if name else None
    return (name, int(counted[1]) * 1024 ** _POWERS[counted[2]]) if counted else (item, 1)


def request_for(has: GresCounts) -> tuple[Gres, ...]:
    """A request for exactly these resources."""
    return tuple(Gres(name, count) for name, count in has.items())


def with_types(has: GresCounts, worker: GresCounts) -> GresCounts:
    """A node's resources with the types of its shape's `worker`, if Slurm reports the same counts without types."""
    kinds: Counter[str] = Counter()
    for name, count in worker.items():
        kinds[name.partition(":")[0]] += count
    return worker if has == kinds else has


def max_concurrent(asked: tuple[Gres, ...], free: GresCounts) -> int:
    """The number of jobs with this request that fit at the same time. The request must not be empty."""
    if len(asked) == 1:
        return _left_of(asked[0].name, free) // asked[0].count
    counts: Counter[str] = Counter()
    for each in asked:
        kind, colon, _ = each.name.partition(":")
        counts[kind] += each.count
        if colon:
            counts[each.name] += each.count
    return min(_left_of(name, free) // count for name, count in counts.items())


def fits(asked: tuple[Gres, ...], free: GresCounts) -> bool:
    """Whether a request can be met from the free resources."""
    if len(asked) == 1:
        return _left_of(asked[0].name, free) >= asked[0].count
    return not asked or sum(subtract(asked, free).values()) == sum(free.values()) - sum(each.count for each in asked)


def subtract(taken: Iterable[Gres], free: GresCounts) -> GresCounts:
    """Subtract what is taken from the free resources, down to zero.

    An untyped request takes from the type with the most left. It also takes resources that have no type.
    """
    left = dict(free)
    # Typed requests come first: untyped ones can use whatever is left.
    for each in sorted(taken, key=lambda each: ":" not in each.name):
        count = each.count
        for name in sorted(_of_kind(each.name, left), key=lambda name: (-left[name], name)):
            found = min(count, left[name])
            left[name] -= found
            count -= found
    return left


def _of_kind(name: str, free: GresCounts) -> list[str]:
    kind, colon, _ = name.partition(":")
    return [other for other in free if other == name or (not colon and other.partition(":")[0] == kind)]


def _left_of(name: str, free: GresCounts) -> int:
    left = free.get(name, 0)
    if ":" not in name:
        kind = f"{name}:"
        for other, count in free.items():
            if other.startswith(kind):
                left += count
    return left


def _items(text: str) -> Iterator[GresRequest]:
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise UnreadableGres(f"the generic resources cannot be parsed: {item!r}")
        per: Literal["node", "task", "job"] = "node" if match[1] == "node" else "task" if match[1] == "task" else "job"
        yield GresRequest(per, Gres(match[2], int(match[3])))
