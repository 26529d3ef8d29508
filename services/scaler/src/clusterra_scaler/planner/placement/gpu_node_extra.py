"""Workers with GPUs are closed to jobs that ask for none: with their CPUs taken, their GPUs would be of no use.

Jobs with generic resources have no class and run on a worker that is closed to all of these (see `contracts.node_extra`
and `images/slurm/job_submit.lua`). So does what else has no class, such as a job of several nodes. Let in are only
classes of jobs that wait and whose constraint allows nothing but workers with GPUs, or that ask for GPUs after all.
"""

from collections.abc import Iterator
from itertools import islice

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.node_extra import closed, job_class, says_what_it_takes
from clusterra_contracts.queue import NodeState, PendingJobs

from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.placement.node_extra import MOST_CLASSES
from clusterra_scaler.planner.requests.constraints import UnreadableConstraint, layouts
from clusterra_scaler.planner.requests.gpu_shapes import GpuShapes


def gpu_nodes(observation: Observation, gpu_shapes: GpuShapes) -> dict[WorkerName, NodeState]:
    """Slurm's nodes that are workers with GPUs."""
    return {
        node.name: node for node in observation.snapshot.nodes or () if not gpu_shapes.names.isdisjoint(node.features)
    }


def gpu_extras(observation: Observation, gpu_shapes: GpuShapes) -> dict[WorkerName, str]:
    """The Extra of workers with GPUs that must have another one. A node without any takes no class as it is."""
    nodes = gpu_nodes(observation, gpu_shapes)
    if not nodes:
        return {}
    # The others' turn comes when jobs of these have started.
    classes = dict.fromkeys(_let_in(observation.snapshot.pending or (), gpu_shapes))
    extra = closed(islice(classes, MOST_CLASSES))
    return {
        name: extra
        for name, node in nodes.items()
        if node.extra != extra and (says_what_it_takes(node.extra) if node.extra else classes)
    }


def _let_in(pending: tuple[PendingJobs, ...], gpu_shapes: GpuShapes) -> Iterator[str]:
    for group in pending:
        name = job_class(group.extra)
        if name is not None and (group.gres or _wants_gpu_shapes(group, gpu_shapes)):
            yield name


def _wants_gpu_shapes(group: PendingJobs, gpu_shapes: GpuShapes) -> bool:
    try:
        asked = [constraint for layout in layouts(group.features, group.nodes) for constraint, _ in layout]
        return any(not gpu_shapes.excluded_by_constraint(constraint) for constraint in asked)
    except UnreadableConstraint:
        return False
