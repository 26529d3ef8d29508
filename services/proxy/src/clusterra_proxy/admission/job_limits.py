"""What of a job no worker could ever have: more on one node than any shape has, or more nodes than there may be.

Slurm finds most of it itself, by the placeholders, but in its own words, and not how many workers there may be.
Only what is certain is refused here; expressions of features with more than `&` are left to Slurm. A job that asks for
no GPUs gets no worker with GPUs where others have its features: what is too big for these is refused.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_contracts.shapes import Shape, WorkerSpec

from clusterra_proxy.admission.placeholders import PREFIX
from clusterra_proxy.slurmrestd.errors import Rejected
from clusterra_proxy.slurmrestd.gres import parse_gres

_NODES = re.compile(r"(\d+)([kKmM]?)(?:-(\d+)([kKmM]?))?(?::\d+)?")
_UNITS = {"": 1, "k": 1024, "m": 1024**2}
_GRES_ITEM = re.compile(r"([A-Za-z][\w.-]*)(?::([A-Za-z][\w.-]*))?(?::(\d+))?(?:\(.*\))?")
_FEATURES = re.compile(r"[\w.-]+(?:[&,][\w.-]+)*")


@dataclass(frozen=True)
class PerNodeDemand:
    """The least that a job needs on one of its nodes. Memory is in MiB, resources are by `gpu` or `gpu:h100`."""

    nodes: int
    """How many nodes at least."""
    cpus: int
    memory_mib: int
    gres: Mapping[str, int]
    features: frozenset[str]


def check(binding: ClusterBinding, job: JobDescription) -> None:
    """Raise Rejected, saying which limit and what the largest shape is, for a job that nothing here could run."""
    if any(name.startswith(PREFIX) for name in job.required_nodes or ()):
        raise Rejected(
            "a job cannot ask for a placeholder: nothing ever runs there", hint="ask for a shape by its name"
        )
    max_workers = binding.policy.max_workers
    demand = per_node_demand(job, max_workers)
    if demand.nodes > max_workers:
        raise Rejected(
            f"the job asks for {demand.nodes} nodes, but the cluster may have {max_workers} workers",
            hint=f"ask for at most {max_workers} nodes; {describe_largest_shape(binding)}",
        )
    shapes = binding.catalogue.shapes
    known = {feature for shape in shapes for feature in shape.worker.features}
    if unknown := sorted(demand.features - known):
        raise Rejected(
            f"no worker has the feature {', '.join(unknown)}", hint=f"ask for one of {', '.join(sorted(known))}"
        )
    matching = [shape for shape in shapes if demand.features <= set(shape.worker.features)]
    if not matching:
        raise Rejected(
            f"no worker has all the features {', '.join(sorted(demand.features))}",
            hint="ask for one family or one shape",
        )
    may_name_gpus = job.constraints and not demand.features
    others = [] if demand.gres or may_name_gpus else [shape for shape in matching if not shape.gpu_count]
    among = " without GPUs" if others and len(others) < len(matching) else ""
    matching = others or matching
    if any(_fits(shape.worker, demand) for shape in matching):
        return
    among += f" among those with {', '.join(sorted(demand.features))}" if demand.features else ""
    raise Rejected(
        _exceeded_limit(matching, demand, among),
        hint=f"ask for less on each node, or for more nodes; {_describe_largest(matching)}",
    )


def describe_largest_shape(binding: ClusterBinding) -> str:
    """The largest shape in words: the one with the most CPUs, and of those the most memory."""
    shapes = binding.catalogue.shapes
    return _describe_largest(shapes) if shapes else "the cluster's catalogue is empty"


def _describe_largest(shapes: Sequence[Shape]) -> str:
    shape = max(shapes, key=lambda shape: (shape.worker.cpus, shape.worker.memory_mib))
    return f"the largest shape is {_describe(shape)}"


def per_node_demand(job: JobDescription, max_nodes: int) -> PerNodeDemand:
    """What a job needs on one of at most `most_nodes` nodes, spread as widely as it allows."""
    fewest, widest = _nodes(job)
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
    for text, on_one_node in requested:
        for kind, count in parse_gres(text or ""):
            gres[kind] = max(gres.get(kind, 0), on_one_node(count))
    constraints = job.constraints or ""
    features = re.split("[&,]", constraints) if _FEATURES.fullmatch(constraints) else ()
    return PerNodeDemand(fewest, cpus, memory, gres, frozenset(features))


def _nodes(job: JobDescription) -> tuple[int, int | None]:
    """The fewest and the most nodes; None for as many as there may be."""
    match = _NODES.fullmatch(job.nodes or "")
    if match is None:
        return job.minimum_nodes or 1, job.maximum_nodes or None
    first, unit, last, last_unit = match.groups()
    fewest = int(first) * _UNITS[unit.lower()]
    return fewest, fewest if last is None else int(last) * _UNITS[last_unit.lower()]


def _resources(worker: WorkerSpec) -> dict[str, int]:
    """What a worker has of each resource, by its name and by its name with the type."""
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


def _exceeded_limit(shapes: Iterable[Shape], demand: PerNodeDemand, among: str) -> str:
    """The first limit that all of these shapes are below, else that no one has everything at once."""
    candidates = list(shapes)
    limits: list[tuple[str, int, Callable[[WorkerSpec], int]]] = [
        ("CPUs", demand.cpus, lambda worker: worker.cpus),
        ("MiB of memory", demand.memory_mib, lambda worker: worker.memory_mib),
        *(
            (f"gres/{kind}", count, lambda worker, kind=kind: _resources(worker).get(kind, 0))
            for kind, count in demand.gres.items()
        ),
    ]
    for entity, requested, of in limits:
        best = max(candidates, key=lambda shape: of(shape.worker))
        if requested > of(best.worker):
            return (
                f"the job needs {requested} {entity} on each node, but the largest worker{among} has "
                f"{of(best.worker)} ({best.name})"
            )
    whole = ", ".join(f"{requested} {entity}" for entity, requested, _ in limits if requested)
    return f"the job needs {whole} on each node, and no shape{among} has all of that at once"


def _describe(shape: Shape) -> str:
    worker = shape.worker
    gres = f", {worker.gres}" if worker.gres else ""
    return f"{shape.name} with {worker.cpus} CPUs, {worker.memory_mib} MiB{gres}"
