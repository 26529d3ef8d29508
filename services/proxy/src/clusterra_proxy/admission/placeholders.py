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
FLOOR = 8
"""Records of each shape before the largest ones get more."""
PER_CALL = 50
"""Records that one call makes or deletes: slurmctld does nothing else for the 5 ms that each takes."""
_DIGEST = 6


@dataclass(frozen=True)
class Placeholder:
    """`count` equal records that stand for workers of one shape."""

    shape: str
    worker: WorkerSpec
    count: int

    @property
    def stem(self) -> str:
        """What the names begin with."""
        digest = hashlib.sha256(self.worker.model_dump_json(exclude={"weight"}).encode()).hexdigest()[:_DIGEST]
        return f"{PREFIX}{self.shape}-{digest}-"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the records, in the order in which they are made."""
        return tuple(f"{self.stem}{number}" for number in range(1, self.count + 1))

    @property
    def last(self) -> str:
        """The name of the record that is made last."""
        return f"{self.stem}{self.count}"

    def line(self, nodes: str) -> str:
        """The line of slurm.conf for some of them."""
        parts = [f"NodeName={nodes}", f"CPUs={self.worker.cpus}", f"RealMemory={self.worker.memory_mib}"]
        if self.worker.features:
            parts.append(f"Feature={','.join(self.worker.features)}")
        if self.worker.gres:
            parts.append(f"Gres={self.worker.gres}")
        return " ".join([*parts, "State=FUTURE"])


@dataclass(frozen=True)
class Difference:
    """What is to be done until Slurm has what is wanted. Hostlist expressions, of `PER_CALL` names at most."""

    create: tuple[tuple[Placeholder, str], ...] = ()
    amend: tuple[tuple[str, str], ...] = ()
    """Expression and resources: Slurm has forgotten the type of the GPUs, or has not been told the Extra."""
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.amend or self.delete)


def wanted(binding: ClusterBinding, room: int) -> tuple[Placeholder, ...]:
    """The placeholders of a cluster: at most `room` records, but at least one of each shape."""
    shapes = binding.catalogue.shapes
    most = max(binding.policy.max_workers, 1)
    counts = dict.fromkeys((shape.name for shape in shapes), max(1, min(most, FLOOR, room // max(len(shapes), 1))))
    largest = [shape.name for shape in shapes if _largest(shape, binding.catalogue)]
    for names in (largest, [name for name in counts if name not in largest]):
        share = max(room - sum(counts.values()), 0) // max(len(names), 1)
        counts |= {name: min(most, counts[name] + share) for name in names}
    return tuple(Placeholder(shape.name, shape.worker, counts[shape.name]) for shape in shapes)


def sentinels(placeholders: Iterable[Placeholder]) -> tuple[tuple[str, str], ...]:
    """Name and resources of the records by which a loss shows: the one made last, and the last one with GPUs."""
    found = tuple(placeholders)
    typed = tuple(placeholder for placeholder in found if placeholder.worker.gres)
    return tuple(dict.fromkeys((each.last, each.worker.gres) for each in (*found[-1:], *typed[-1:])))


def difference(placeholders: Iterable[Placeholder], present: Iterable[FutureNode]) -> Difference:
    """What is between the records that are wanted and those there are. Records of slurm.conf are not ours to delete."""
    nodes = {node.name: node for node in present if node.name.startswith(PREFIX) and node.dynamic}
    create: list[tuple[Placeholder, str]] = []
    amend: list[tuple[str, str]] = []
    for placeholder in placeholders:
        found = [(name, nodes.pop(name, None)) for name in placeholder.names]
        missing = [name for name, node in found if node is None]
        other = [name for name, node in found if node is not None and not same(node, placeholder.worker.gres)]
        create += [(placeholder, nodes_of) for nodes_of in _expressions(missing)]
        amend += [(nodes_of, placeholder.worker.gres) for nodes_of in _expressions(other)]
    return Difference(tuple(create), tuple(amend), tuple(_expressions(nodes)))


def same(node: FutureNode, gres: str) -> bool:
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


def _largest(shape: Shape, catalogue: Catalogue) -> bool:
    return not any(_serves(other, shape) and not _serves(shape, other) for other in catalogue.shapes)


def _serves(large: Shape, small: Shape) -> bool:
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
        stem, dash, number = name.rpartition("-")
        if number.isdecimal():
            by_stem.setdefault(f"{stem}{dash}", []).append(int(number))
        else:
            yield name
    for stem, numbers in by_stem.items():
        for chunk in itertools.batched(sorted(numbers), PER_CALL):
            yield f"{stem}[{','.join(_ranges(chunk))}]"


def _ranges(numbers: Iterable[int]) -> Iterator[str]:
    """`1-3`, `7` for rising numbers."""
    for _, run in itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        first, *rest = [number for _, number in run]
        yield f"{first}-{rest[-1]}" if rest else str(first)
