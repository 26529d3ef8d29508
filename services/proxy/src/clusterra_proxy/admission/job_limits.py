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
from clusterra_proxy.slurmrestd.gres import gres_items

_NODES = re.compile(r"(\d+)([kKmM]?)(?:-(\d+)([kKmM]?))?(?::\d+)?")
_UNITS = {"": 1, "k": 1024, "m": 1024**2}
_HAS = re.compile(r"([A-Za-z][\w.-]*)(?::([A-Za-z][\w.-]*))?(?::(\d+))?(?:\(.*\))?")
_FEATURES = re.compile(r"[\w.-]+(?:[&,][\w.-]+)*")


@dataclass(frozen=True)
class PerNode:
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
    most = binding.policy.max_workers
    needs = needed(job, most)
    if needs.nodes > most:
        raise Rejected(
            f"the job asks for {needs.nodes} nodes, but the cluster may have {most} workers",
            hint=f"ask for at most {most} nodes; {largest(binding)}",
        )
    shapes = binding.catalogue.shapes
    known = {feature for shape in shapes for feature in shape.worker.features}
    if strange := sorted(needs.features - known):
        raise Rejected(
            f"no worker has the feature {', '.join(strange)}", hint=f"ask for one of {', '.join(sorted(known))}"
        )
    able = [shape for shape in shapes if needs.features <= set(shape.worker.features)]
    if not able:
        raise Rejected(
            f"no worker has all the features {', '.join(sorted(needs.features))}",
            hint="ask for one family or one shape",
        )
    may_name_gpus = job.constraints and not needs.features
    others = [] if needs.gres or may_name_gpus else [shape for shape in able if not shape.gpu_count]
    among = " without GPUs" if others and len(others) < len(able) else ""
    able = others or able
    if any(_fits(shape.worker, needs) for shape in able):
        return
    among += f" among those with {', '.join(sorted(needs.features))}" if needs.features else ""
    raise Rejected(_excess(able, needs, among), hint=f"ask for less on each node, or for more nodes; {_largest(able)}")


def largest(binding: ClusterBinding) -> str:
    """The largest shape in words: the one with the most CPUs, and of those the most memory."""
    shapes = binding.catalogue.shapes
    return _largest(shapes) if shapes else "the cluster's catalogue is empty"


def _largest(shapes: Sequence[Shape]) -> str:
    shape = max(shapes, key=lambda shape: (shape.worker.cpus, shape.worker.memory_mib))
    return f"the largest shape is {_words(shape)}"


def needed(job: JobDescription, most_nodes: int) -> PerNode:
    """What a job needs on one of at most `most_nodes` nodes, spread as widely as it allows."""
    fewest, widest = _nodes(job)
    spread = max(min(widest or most_nodes, most_nodes), 1)
    tasks = -(-job.tasks // spread) if job.tasks else job.tasks_per_node or 1
    cpus = max(tasks * (job.cpus_per_task or 1), -(-(job.minimum_cpus or 0) // spread))
    if job.tasks and job.tasks_per_node:
        fewest = max(fewest, -(-job.tasks // job.tasks_per_node))
    memory = job.memory_per_node or (job.memory_per_cpu or 0) * cpus
    gres: dict[str, int] = {}
    asked: tuple[tuple[str | None, Callable[[int], int]], ...] = (
        (job.tres_per_node, lambda count: count),
        (job.tres_per_socket, lambda count: count),
        (job.tres_per_task, lambda count: count * tasks),
        (job.tres_per_job, lambda count: -(-count // spread)),
    )
    for text, on_one_node in asked:
        for kind, count in gres_items(text or ""):
            gres[kind] = max(gres.get(kind, 0), on_one_node(count))
    constraints = job.constraints or ""
    features = re.split("[&,]", constraints) if _FEATURES.fullmatch(constraints) else ()
    return PerNode(fewest, cpus, memory, gres, frozenset(features))


def _nodes(job: JobDescription) -> tuple[int, int | None]:
    """The fewest and the most nodes; None for as many as there may be."""
    match = _NODES.fullmatch(job.nodes or "")
    if match is None:
        return job.minimum_nodes or 1, job.maximum_nodes or None
    first, unit, last, last_unit = match.groups()
    fewest = int(first) * _UNITS[unit.lower()]
    return fewest, fewest if last is None else int(last) * _UNITS[last_unit.lower()]


def _has(worker: WorkerSpec) -> dict[str, int]:
    """What a worker has of each resource, by its name and by its name with the type."""
    counts: dict[str, int] = {}
    for item in filter(None, worker.gres.split(",")):
        if match := _HAS.fullmatch(item):
            name, kind, count = match.groups()
            for key in filter(None, (name, f"{name}:{kind}" if kind else None)):
                counts[key] = counts.get(key, 0) + int(count or 1)
    return counts


def _fits(worker: WorkerSpec, needs: PerNode) -> bool:
    has = _has(worker)
    return (
        needs.cpus <= worker.cpus
        and needs.memory_mib <= worker.memory_mib
        and all(count <= has.get(kind, 0) for kind, count in needs.gres.items())
    )


def _excess(shapes: Iterable[Shape], needs: PerNode, among: str) -> str:
    """The first limit that all of these shapes are below, else that no one has everything at once."""
    found = list(shapes)
    limits: list[tuple[str, int, Callable[[WorkerSpec], int]]] = [
        ("CPUs", needs.cpus, lambda worker: worker.cpus),
        ("MiB of memory", needs.memory_mib, lambda worker: worker.memory_mib),
        *(
            (f"gres/{kind}", count, lambda worker, kind=kind: _has(worker).get(kind, 0))
            for kind, count in needs.gres.items()
        ),
    ]
    for what, asked, of in limits:
        best = max(found, key=lambda shape: of(shape.worker))
        if asked > of(best.worker):
            return (
                f"the job needs {asked} {what} on each node, but the largest worker{among} has "
                f"{of(best.worker)} ({best.name})"
            )
    whole = ", ".join(f"{asked} {what}" for what, asked, _ in limits if asked)
    return f"the job needs {whole} on each node, and no shape{among} has all of that at once"


def _words(shape: Shape) -> str:
    worker = shape.worker
    gres = f", {worker.gres}" if worker.gres else ""
    return f"{shape.name} with {worker.cpus} CPUs, {worker.memory_mib} MiB{gres}"
