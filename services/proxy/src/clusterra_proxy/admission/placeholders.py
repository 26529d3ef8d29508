"""Which placeholders a catalogue needs: node records that stand for workers which could be bought.

What Slurm checks when it admits a job is the number of its records that match it. A job of three nodes that asks for
a feature needs three records with that feature, and one whose size only the largest shape has as many of that one.
Jobs without a feature count the records of all shapes that are large enough. So the largest shape of each kind gets
as many records as there may be workers and serves whatever its smaller siblings could; these get fewer.

A record's name holds a digest of what the worker has. When the catalogue changes, new records stand beside the old
ones before those go, and no moment is left in which a waiting job fits nothing. The worker's weight is no part of it:
no job is given to a placeholder.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue, Shape, WorkerSpec

from clusterra_proxy.slurmrestd.answers import FutureNode
from clusterra_proxy.slurmrestd.gres import gres_counts

PREFIX = "placeholder-"
MIN_PER_SHAPE = 8
"""Records of each shape before the largest ones get more."""
MAX_NODES_PER_CALL = 50
"""Records that one call makes or deletes: slurmctld does nothing else for the 5 ms that each takes."""
_DIGEST = 6


@dataclass(frozen=True)
class PlaceholderGroup:
    """`count` equal records that stand for workers of one shape."""

    shape: str
    worker: WorkerSpec
    count: int

    @property
    def name_prefix(self) -> str:
        """What the names begin with."""
        digest = hashlib.sha256(self.worker.model_dump_json(exclude={"weight"}).encode()).hexdigest()[:_DIGEST]
        return f"{PREFIX}{self.shape}-{digest}-"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the records, in the order in which they are made."""
        return tuple(f"{self.name_prefix}{number}" for number in range(1, self.count + 1))

    @property
    def last_name(self) -> str:
        """The name of the record that is made last."""
        return f"{self.name_prefix}{self.count}"

    def node_conf(self, nodes: str) -> str:
        """The line of slurm.conf for some of them."""
        parts = [f"NodeName={nodes}", f"CPUs={self.worker.cpus}", f"RealMemory={self.worker.memory_mib}"]
        if self.worker.features:
            parts.append(f"Feature={','.join(self.worker.features)}")
        if self.worker.gres:
            parts.append(f"Gres={self.worker.gres}")
        return " ".join([*parts, "State=FUTURE"])


@dataclass(frozen=True)
class PlaceholderDiff:
    """What is to be done until Slurm has what is wanted. Hostlist expressions, of `PER_CALL` names at most."""

    create: tuple[tuple[PlaceholderGroup, str], ...] = ()
    amend: tuple[tuple[str, str], ...] = ()
    """Expression and resources: Slurm has forgotten the type of the GPUs, or has not been told the Extra."""
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.amend or self.delete)


def desired_placeholders(binding: ClusterBinding, limit: int) -> tuple[PlaceholderGroup, ...]:
    """The placeholders of a cluster: at most `room` records, but at least one of each shape."""
    shapes = binding.catalogue.shapes
    max_workers = max(binding.policy.max_workers, 1)
    counts = dict.fromkeys(
        (shape.name for shape in shapes), max(1, min(max_workers, MIN_PER_SHAPE, limit // max(len(shapes), 1)))
    )
    largest = [shape.name for shape in shapes if _is_maximal(shape, binding.catalogue)]
    for names in (largest, [name for name in counts if name not in largest]):
        share = max(limit - sum(counts.values()), 0) // max(len(names), 1)
        counts |= {name: min(max_workers, counts[name] + share) for name in names}
    return tuple(PlaceholderGroup(shape.name, shape.worker, counts[shape.name]) for shape in shapes)


def sentinels(groups: Iterable[PlaceholderGroup]) -> tuple[tuple[str, str], ...]:
    """Name and resources of the records by which a loss shows: the one made last, and the last one with GPUs."""
    found = tuple(groups)
    typed = tuple(group for group in found if group.worker.gres)
    return tuple(dict.fromkeys((each.last_name, each.worker.gres) for each in (*found[-1:], *typed[-1:])))


def diff(groups: Iterable[PlaceholderGroup], present: Iterable[FutureNode]) -> PlaceholderDiff:
    """What is between the records that are wanted and those there are. Records of slurm.conf are not ours to delete."""
    nodes = {node.name: node for node in present if node.name.startswith(PREFIX) and node.dynamic}
    create: list[tuple[PlaceholderGroup, str]] = []
    amend: list[tuple[str, str]] = []
    for group in groups:
        found = [(name, nodes.pop(name, None)) for name in group.names]
        missing = [name for name, node in found if node is None]
        other = [name for name, node in found if node is not None and not is_current(node, group.worker.gres)]
        create += [(group, nodes_of) for nodes_of in _expressions(missing)]
        amend += [(nodes_of, group.worker.gres) for nodes_of in _expressions(other)]
    return PlaceholderDiff(tuple(create), tuple(amend), tuple(_expressions(nodes)))


def is_current(node: FutureNode, gres: str) -> bool:
    """Whether a record has these resources, and takes jobs of every class.

    Without Extra it counts for no job that has a class: Slurm would hold such a job until a worker that fits it comes.
    """
    return node.extra == OPEN and same_gres(node.gres, gres)


def same_gres(one: str, other: str) -> bool:
    """Whether both name the same resources. Slurm adds the sockets in parentheses, and a count where there is none."""
    return _gres(one) == _gres(other)


def _gres(text: str) -> list[str]:
    items = filter(None, re.sub(r"\([^)]*\)", "", text).split(","))
    return sorted(item if re.search(r":\d+$", item) else f"{item}:1" for item in items)


def _is_maximal(shape: Shape, catalogue: Catalogue) -> bool:
    return not any(_covers(other, shape) and not _covers(shape, other) for other in catalogue.shapes)


def _covers(large: Shape, small: Shape) -> bool:
    """Whether a worker of `large` runs what one of `small` could, but for jobs that ask for the shape by its name."""
    one, other = large.worker, small.worker
    has = gres_counts(one.gres)
    return (
        one.cpus >= other.cpus
        and one.memory_mib >= other.memory_mib
        and set(other.features) - {small.name} <= set(one.features)
        and all(has.get(name, 0) >= count for name, count in gres_counts(other.gres).items())
    )


def _expressions(names: Iterable[str]) -> Iterator[str]:
    """Hostlist expressions of names that end in a number."""
    by_stem: dict[str, list[int]] = {}
    for name in names:
        name_prefix, dash, number = name.rpartition("-")
        if number.isdecimal():
            by_stem.setdefault(f"{name_prefix}{dash}", []).append(int(number))
        else:
            yield name
    for name_prefix, numbers in by_stem.items():
        for chunk in itertools.batched(sorted(numbers), MAX_NODES_PER_CALL):
            yield f"{name_prefix}[{','.join(_ranges(chunk))}]"


def _ranges(numbers: Iterable[int]) -> Iterator[str]:
    """`1-3`, `7` for rising numbers."""
    for _, run in itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        first, *rest = [number for _, number in run]
        yield f"{first}-{rest[-1]}" if rest else str(first)
