"""How sbatch fits the numbers of tasks and nodes to each other before Slurm gets them."""

import math

from clusterra_sbatch import node_counts
from clusterra_sbatch.node_counts import NodeCount
from clusterra_sbatch.options import Fields

_PER_NODE = ("sockets_per_node", "threads_per_core")
"""Of each node in a fixed number of nodes a job gets as many tasks as these make together."""
_SIZES = frozenset({"nodes", "tasks", "tasks_per_node", *_PER_NODE})


def with_tasks_and_nodes(script: Fields, request: Fields) -> Fields:
    """Return the fields of a job with tasks and nodes that fit, if a script names some of them.

    The request takes precedence. Its numbers alone are those of slurmrestd, which leaves them as they are, and so is a
    count of nodes that cannot be read.
    """
    fields = script | request
    if _SIZES.isdisjoint(script.keys() - request.keys()):
        return fields
    try:
        nodes = node_counts.parse(fields["nodes"]) if fields.get("nodes") else None
    except ValueError:
        return fields
    return fields | (_without_nodes(fields) if nodes is None else _with_nodes(fields, nodes))


def _without_nodes(fields: Fields) -> Fields:
    tasks, per_node = fields.get("tasks"), fields.get("tasks_per_node")
    if not (tasks and per_node) or fields.get("minimum_nodes") or fields.get("required_nodes"):
        return {}
    return {"minimum_nodes": -(-tasks // per_node)}


def _with_nodes(fields: Fields, nodes: NodeCount) -> Fields:
    tasks: int | None = fields.get("tasks")
    if tasks is None:
        factors = [fields[name] for name in _PER_NODE if fields.get(name)]
        if nodes.most not in (None, nodes.fewest) or fields.get("tasks_per_node") is not None or not factors:
            return {}
        return {"tasks": math.prod(factors, start=max(nodes.fewest, 1))}
    if tasks < nodes.fewest:
        return {"nodes": str(tasks)}
    listed = "," in nodes.text or ":" in nodes.text
    if nodes.most is not None and tasks < nodes.most and not listed:
        return {"nodes": f"{nodes.fewest}-{tasks}"}
    return {}
