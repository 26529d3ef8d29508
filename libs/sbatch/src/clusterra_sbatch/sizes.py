"""How sbatch fits the numbers of tasks and nodes to each other before Slurm gets them."""

from clusterra_sbatch import node_counts
from clusterra_sbatch.options import Fields

_PER_NODE = ("sockets_per_node", "threads_per_core")
"""Of each node in a fixed number of nodes a job gets as many tasks as these make together."""


def with_tasks_and_nodes(fields: Fields) -> Fields:
    """Return the fields of a job with tasks and nodes that fit. A count that cannot be read is left."""
    try:
        nodes = node_counts.parse(fields["nodes"]) if fields.get("nodes") else None
    except ValueError:
        return fields
    if nodes is None:
        return fields
    tasks: int | None = fields.get("tasks")
    if tasks is None:
        factors = [fields[name] for name in _PER_NODE if fields.get(name)]
        if nodes.most not in (None, nodes.fewest) or fields.get("tasks_per_node") is not None or not factors:
            return fields
        tasks = max(nodes.fewest, 1)
        for factor in factors:
            tasks *= factor
        return fields | {"tasks": tasks}
    if tasks < nodes.fewest:
        return fields | {"nodes": str(tasks)}
    if nodes.most is not None and tasks < nodes.most and "," not in nodes.text and ":" not in nodes.text:
        return fields | {"nodes": f"{nodes.fewest}-{tasks}"}
    return fields
