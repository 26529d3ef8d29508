"""Rejects jobs that no worker could ever run: larger per node than any shape, or on more nodes than workers allowed.

With the placeholders, Slurm itself rejects most of these jobs, but its messages do not name the limit, and it does not
know the maximum number of workers. Only certain cases are rejected here: feature expressions with operators other than
`&` are left to Slurm. A job that requests no GPUs gets no worker with GPUs as long as other shapes have its features,
so it is rejected when it is too large for those.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_contracts.shapes import Shape, WorkerSpec
from clusterra_sbatch import node_counts

from clusterra_proxy.admission.placeholders import PREFIX
from clusterra_proxy.slurmrestd.error_codes import INVALID_FEATURE, INVALID_NODE_COUNT, NODES_UNAVAILABLE
from clusterra_proxy.slurmrestd.errors import Rejected
from clusterra_proxy.slurmrestd.gres import parse_gres

_GRES_ITEM = re.compile(r"([A-Za-z][\w.-]*)(?::([A-Za-z][\w.-]*))?(?::(\d+))?(?:\(.*\))?")
_FEATURES = re.compile(r"[\w.-]+(?:[&,][\w.-]+)*")


class PerGpu(NamedTuple):
    """What a job requests for each of its GPUs."""

    cpus: int = 0
    memory_mib: int = 0

    @classmethod
    def parse(cls, cpus: str | None, memory: str | None) -> "PerGpu":
        """Read TRES lists such as `gres/gpu:4`."""
        return cls(*(dict(parse_gres(tres or "")).get("gpu", 0) for tres in (cpus, memory)))


NOTHING_PER_GPU = PerGpu()


@dataclass(frozen=True)
class PerNodeDemand:
    """The minimum that a job needs on each node. Memory is in MiB; `gres` is keyed by `gpu` or `gpu:h100`."""

    nodes: int
    """Minimum number of nodes."""
    cpus: int
    memory_mib: int
    gres: Mapping[str, int]
    features: frozenset[str]


def check(binding: ClusterBinding, job: JobDescription, per_gpu: PerGpu = NOTHING_PER_GPU) -> None:
    """Raise Rejected for a job that no worker could ever run, with the exceeded limit and the largest shape."""
    if any(name.startswith(PREFIX) for name in job.required_nodes or ()):
        raise Rejected("a job cannot request a placeholder: no job ever runs there", hint="request a shape by its name")
    max_workers = binding.policy.max_workers
    demand = per_node_demand(job, max_workers, per_gpu)
    if demand.nodes > max_workers:
        raise Rejected(
            f"the job requests {demand.nodes} nodes, but the cluster may have {max_workers} workers",
            hint=f"request at most {max_workers} nodes; {describe_largest_shape(binding)}",
            code=INVALID_NODE_COUNT,
        )
    matching = _matching_shapes(binding.catalogue.shapes, demand.features)
    candidates = matching
    qualifier = ""
    may_name_gpus = job.constraints and not demand.features
    if not demand.gres and not may_name_gpus:
        candidates = [shape for shape in matching if not shape.gpu_count] or matching
        if len(candidates) < len(matching):
            qualifier = " without GPUs"
    if any(_fits(shape.worker, demand) for shape in candidates):
        return
    if demand.features:
        qualifier += f" among those with {', '.join(sorted(demand.features))}"
    raise Rejected(
        _exceeded_limit(candidates, demand, qualifier),
        hint=f"request less per node, or more nodes; {_describe_largest(candidates)}",
        code=NODES_UNAVAILABLE,
    )


def _matching_shapes(shapes: Sequence[Shape], features: frozenset[str]) -> list[Shape]:
    """Return the shapes that have all these features. Raises Rejected when there are none."""
    known = {feature for shape in shapes for feature in shape.worker.features}
    if unknown := sorted(features - known):
        raise Rejected(
            f"no worker has the feature {', '.join(unknown)}",
            hint=f"request one of {', '.join(sorted(known))}",
            code=INVALID_FEATURE,
        )
    matching = [shape for shape in shapes if features <= set(shape.worker.features)]
    if not matching:
        raise Rejected(
            f"no worker has all the features {', '.join(sorted(features))}",
            hint="request one family or one shape",
            code=INVALID_FEATURE,
        )
    return matching


def describe_largest_shape(binding: ClusterBinding) -> str:
    """Describe the largest shape, for error texts: most CPUs, then most memory."""
    shapes = binding.catalogue.shapes
    return _describe_largest(shapes) if shapes else "the cluster's catalogue is empty"


def _describe_largest(shapes: Sequence[Shape]) -> str:
    shape = max(shapes, key=lambda shape: (shape.worker.cpus, shape.worker.memory_mib))
    return f"the largest shape is {_describe(shape)}"


def per_node_demand(job: JobDescription, max_nodes: int, per_gpu: PerGpu = NOTHING_PER_GPU) -> PerNodeDemand:
    """Return what a job needs on each of at most `max_nodes` nodes when it is spread as widely as it allows."""
    fewest, widest = node_range(job)
    spread = max(min(widest or max_nodes, max_nodes), 1)
    tasks = -(-job.tasks // spread) if job.tasks else job.tasks_per_node or 1
    cpus = max(tasks * (job.cpus_per_task or 1), -(-(job.minimum_cpus or 0) // spread))
    if job.tasks and job.tasks_per_node:
        fewest = max(fewest, -(-job.tasks // job.tasks_per_node))
    memory = job.memory_per_node or (job.memory_per_cpu or 0) * cpus
    gres: dict[str, int] = {}
    requested: tuple[tuple[str | None, Callable[[int], int]], ...] = (
        (job.tres_per_node, lambda count: count),
        (job.tres_per_socket, lambda count: count),
        (job.tres_per_task, lambda count: count * tasks),
        (job.tres_per_job, lambda count: -(-count // spread)),
    )
    for text, per_node in requested:
        for kind, count in parse_gres(text or ""):
            gres[kind] = max(gres.get(kind, 0), per_node(count))
    gpus = sum(count for kind, count in gres.items() if kind.partition(":")[0] == "gpu")
    cpus, memory = max(cpus, gpus * per_gpu.cpus), max(memory, gpus * per_gpu.memory_mib)
    constraints = job.constraints or ""
    features = re.split("[&,]", constraints) if _FEATURES.fullmatch(constraints) else ()
    return PerNodeDemand(fewest, cpus, memory, gres, frozenset(features))


def node_range(job: JobDescription) -> tuple[int, int | None]:
    """Return the minimum and the maximum number of nodes that are asked for; the maximum is None when unlimited.

    Raises ValueError for a text that is no number of nodes.
    """
    if not job.nodes:
        return job.minimum_nodes or 1, job.maximum_nodes or None
    count = node_counts.parse(job.nodes)
    return count.fewest, count.most


def _resources(worker: WorkerSpec) -> dict[str, int]:
    """Return a worker's generic resources, keyed both by name and by name with type."""
    counts: dict[str, int] = {}
    for item in filter(None, worker.gres.split(",")):
        if match := _GRES_ITEM.fullmatch(item):
            name, kind, count = match.groups()
            for key in filter(None, (name, f"{name}:{kind}" if kind else None)):
                counts[key] = counts.get(key, 0) + int(count or 1)
    return counts


def _fits(worker: WorkerSpec, demand: PerNodeDemand) -> bool:
    available = _resources(worker)
    return (
        demand.cpus <= worker.cpus
        and demand.memory_mib <= worker.memory_mib
        and all(count <= available.get(kind, 0) for kind, count in demand.gres.items())
    )


def _exceeded_limit(candidates: Sequence[Shape], demand: PerNodeDemand, qualifier: str) -> str:
    """Describe the first demand above the largest candidate, else that no candidate meets all demands at once."""
    limits: list[tuple[str, int, Callable[[WorkerSpec], int]]] = [
        ("CPUs", demand.cpus, lambda worker: worker.cpus),
        ("MiB of memory", demand.memory_mib, lambda worker: worker.memory_mib),
        *(
            (f"gres/{kind}", count, lambda worker, kind=kind: _resources(worker).get(kind, 0))
            for kind, count in demand.gres.items()
        ),
    ]
    for resource, requested, capacity in limits:
        largest = max(candidates, key=lambda shape: capacity(shape.worker))
        if requested > capacity(largest.worker):
            return (
                f"the job needs {requested} {resource} on each node, but the largest worker{qualifier} has "
                f"{capacity(largest.worker)} ({largest.name})"
            )
    total = ", ".join(f"{requested} {resource}" for resource, requested, _ in limits if requested)
    return f"the job needs {total} on each node, and no shape{qualifier} has all of that at once"


def _describe(shape: Shape) -> str:
    worker = shape.worker
    gres = f", {worker.gres}" if worker.gres else ""
    return f"{shape.name} with {worker.cpus} CPUs, {worker.memory_mib} MiB{gres}"
