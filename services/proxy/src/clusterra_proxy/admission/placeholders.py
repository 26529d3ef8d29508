"""The placeholders of a catalogue: node records that stand for workers that could be launched.

Slurm admits a job by counting the node records that match it. A job of three nodes that requests a feature needs
three records with that feature. A job that only the largest shape can run needs enough records of that shape. A job
without a feature counts the records of all shapes that are large enough. So each shape that no other shape covers gets
as many records as the cluster may have workers, and its records also admit what smaller shapes could run. The smaller
shapes get fewer.

A record's name contains a digest of the worker's resources. When the catalogue changes, new records are created
before the old ones are deleted, so that a waiting job always matches some record. The digest leaves out the worker's
weight, because no job is ever placed on a placeholder.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clusterra_contracts.gres import parse_spec
from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue, Shape, WorkerSpec

from clusterra_proxy.slurmrestd.answers import FutureNode

PREFIX = "placeholder-"
MIN_PER_SHAPE = 8
"""Records that every shape gets before the largest shapes get more."""
MAX_NODES_PER_CALL = 50
"""Most records created or deleted in one call: slurmctld is blocked for about 5 ms per record."""
_DIGEST = 6


@dataclass(frozen=True)
class PlaceholderGroup:
    """`count` identical records that stand for workers of one shape."""

    shape: str
    worker: WorkerSpec
    count: int

    @property
    def name_prefix(self) -> str:
        """The common prefix of the records' names."""
        digest = hashlib.sha256(self.worker.model_dump_json(exclude={"weight"}).encode()).hexdigest()[:_DIGEST]
        return f"{PREFIX}{self.shape}-{digest}-"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the records, in the order of creation."""
        return tuple(f"{self.name_prefix}{number}" for number in range(1, self.count + 1))

    @property
    def last_name(self) -> str:
        """The name of the record that is created last."""
        return f"{self.name_prefix}{self.count}"

    def node_conf(self, nodes: str) -> str:
        """Return the slurm.conf line of the records in `nodes`, a hostlist expression."""
        parts = [f"NodeName={nodes}", f"CPUs={self.worker.cpus}", f"RealMemory={self.worker.memory_mib}"]
        if self.worker.features:
            parts.append(f"Feature={','.join(self.worker.features)}")
        if self.worker.gres:
            parts.append(f"Gres={self.worker.gres}")
        return " ".join([*parts, "State=FUTURE"])


@dataclass(frozen=True)
class PlaceholderDiff:
    """The calls that lead to the desired records. Hostlist expressions have at most `MAX_NODES_PER_CALL` names."""

    create: tuple[tuple[PlaceholderGroup, str], ...] = ()
    amend: tuple[tuple[str, str], ...] = ()
    """Expression and generic resources of records whose GPU type Slurm has forgotten or whose Extra is not set."""
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.amend or self.delete)


def desired_placeholders(binding: ClusterBinding, limit: int) -> tuple[PlaceholderGroup, ...]:
    """Return the desired placeholders of a cluster: at most `limit` records, but at least one of each shape."""
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
    """Return name and resources of the sentinels: the record created last, and the last record with GPUs."""
    found = tuple(groups)
    typed = tuple(group for group in found if group.worker.gres)
    return tuple(dict.fromkeys((each.last_name, each.worker.gres) for each in (*found[-1:], *typed[-1:])))


def diff(groups: Iterable[PlaceholderGroup], existing: Iterable[FutureNode]) -> PlaceholderDiff:
    """Compare the desired records with the existing ones. Records that slurm.conf defines are never deleted."""
    nodes = {node.name: node for node in existing if node.name.startswith(PREFIX) and node.dynamic}
    create: list[tuple[PlaceholderGroup, str]] = []
    amend: list[tuple[str, str]] = []
    for group in groups:
        found = [(name, nodes.pop(name, None)) for name in group.names]
        missing = [name for name, node in found if node is None]
        other = [name for name, node in found if node is not None and not is_current(node, group.worker.gres)]
        create += [(group, expression) for expression in _expressions(missing)]
        amend += [(expression, group.worker.gres) for expression in _expressions(other)]
    return PlaceholderDiff(tuple(create), tuple(amend), tuple(_expressions(nodes)))


def is_current(node: FutureNode, gres: str) -> bool:
    """Return whether a record has these resources and an Extra that opens it to jobs of every class.

    Without that Extra, the record matches no job that has a class, and Slurm holds such a job until a matching worker
    registers.
    """
    return node.extra == OPEN and same_gres(node.gres, gres)


def same_gres(one: str, other: str) -> bool:
    """Return whether two lists name the same resources. Slurm adds sockets in parentheses, and a missing count."""
    return _gres(one) == _gres(other)


def _gres(text: str) -> list[str]:
    items = filter(None, re.sub(r"\([^)]*\)", "", text).split(","))
    return sorted(item if re.search(r":\d+$", item) else f"{item}:1" for item in items)


def _is_maximal(shape: Shape, catalogue: Catalogue) -> bool:
    return not any(_covers(other, shape) and not _covers(shape, other) for other in catalogue.shapes)


def _covers(large: Shape, small: Shape) -> bool:
    """Whether `large` can run whatever `small` can, except jobs that request `small` by its name."""
    larger, smaller = large.worker, small.worker
    available = parse_spec(larger.gres)
    return (
        larger.cpus >= smaller.cpus
        and larger.memory_mib >= smaller.memory_mib
        and set(smaller.features) - {small.name} <= set(larger.features)
        and all(available.get(name, 0) >= count for name, count in parse_spec(smaller.gres).items())
    )


def _expressions(names: Iterable[str]) -> Iterator[str]:
    """Yield hostlist expressions for names that end in a number."""
    by_prefix: dict[str, list[int]] = {}
    for name in names:
        name_prefix, dash, number = name.rpartition("-")
        if number.isdecimal():
            by_prefix.setdefault(f"{name_prefix}{dash}", []).append(int(number))
        else:
            yield name
    for name_prefix, numbers in by_prefix.items():
        for chunk in itertools.batched(sorted(numbers), MAX_NODES_PER_CALL):
            yield f"{name_prefix}[{','.join(_ranges(chunk))}]"


def _ranges(numbers: Iterable[int]) -> Iterator[str]:
    """Yield ranges such as `1-3` and `7` for ascending numbers."""
    for _, run in itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        first, *rest = [number for _, number in run]
        yield f"{first}-{rest[-1]}" if rest else str(first)
