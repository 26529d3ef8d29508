"""The Extra of workers with GPUs: they are closed to jobs that ask for no GPU, since their GPUs need their CPUs.

Jobs with generic resources have no class and run on a worker that is closed to all classes (see
`contracts.node_extra` and `images/slurm/job_submit.lua`). So do other jobs without a class, such as those of several
nodes. Only classes of pending jobs are admitted whose constraint allows nothing but workers with GPUs, or that ask for
GPUs after all.
"""

from collections.abc import Iterator
from itertools import islice

from clusterra_contracts.constraints import UnreadableConstraint, layouts
from clusterra_contracts.identity import WorkerName
from clusterra_contracts.node_extra import closed, is_class_filter, job_class
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot
from clusterra_contracts.shape_fit import GpuShapes

from clusterra_scaler.planner.placement.node_extra import MOST_CLASSES


def gpu_nodes(snapshot: QueueSnapshot, gpu_shapes: GpuShapes) -> dict[WorkerName, NodeState]:
    """Nodes of Slurm that are workers with GPUs."""
    return {node.name: node for node in snapshot.nodes or () if not gpu_shapes.names.isdisjoint(node.features)}


def gpu_extras(snapshot: QueueSnapshot, gpu_shapes: GpuShapes) -> dict[WorkerName, str]:
    """The Extra of workers with GPUs that must have a new one. A node without Extra takes no class as it is."""
    nodes = gpu_nodes(snapshot, gpu_shapes)
    if not nodes:
        return {}
    # Classes beyond the bound follow once jobs of these have started.
    classes = dict.fromkeys(_admitted(snapshot.pending or (), gpu_shapes))
    extra = closed(islice(classes, MOST_CLASSES))
    return {
        name: extra
        for name, node in nodes.items()
        if node.extra != extra and (is_class_filter(node.extra) if node.extra else classes)
    }


def _admitted(pending: tuple[PendingJobs, ...], gpu_shapes: GpuShapes) -> Iterator[str]:
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
