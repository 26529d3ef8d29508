"""How sbatch fits the numbers of tasks and nodes to each other before Slurm gets them."""

import math
import re

from clusterra_sbatch import node_counts
from clusterra_sbatch.node_counts import NodeCount
from clusterra_sbatch.translations import Fields

_PER_NODE = ("sockets_per_node", "threads_per_core")
"""Of each node in a fixed number of nodes a job gets as many tasks as these make together."""
_ITEM = re.compile(r"[^,\[]+(?:\[[^\]]*\])?[^,]*")
_RANGE = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
_RANGES = re.compile(rf"([A-Za-z0-9_.-]+)(?:\[({_RANGE}(?:,{_RANGE})*)\])?")
_GPUS = frozenset({"tres_per_job", "tres_per_task"})
_GPUS_OF_JOB = re.compile(r"gres/gpu(:[A-Za-z_][A-Za-z0-9_.-]*)?(?::([0-9]{1,9}))?")
_GPUS_OF_TASK = re.compile(r"gres/gpu(:[A-Za-z_][A-Za-z0-9_.-]*)?(?:=([0-9]{1,9}))?")
_MAX_NAMED = 10_000
_SIZES = frozenset({"nodes", "required_nodes", "tasks", "tasks_per_node", *_PER_NODE})


def with_tasks_and_nodes(script: Fields, request: Fields) -> Fields:
    """Return the fields of a job with tasks and nodes that fit, if a script names some of them.

    The request takes precedence. Its numbers alone are those of slurmrestd, which leaves them as they are, and so is a
    count of nodes that cannot be read.
    """
    fields = script | request
    if not _GPUS.isdisjoint(script.keys() - request.keys()):
        fields |= _tasks_of_gpus(fields)
    if _SIZES.isdisjoint(script.keys() - request.keys()):
        return fields
    try:
        nodes = node_counts.parse(fields["nodes"]) if fields.get("nodes") else None
    except ValueError:
        return fields
    return fields | (_without_nodes(fields) if nodes is None else _with_nodes(fields, nodes))


def _tasks_of_gpus(fields: Fields) -> Fields:
    """The number of tasks that share a job's GPUs evenly."""
    of_job = _GPUS_OF_JOB.fullmatch(fields.get("tres_per_job") or "")
    of_task = _GPUS_OF_TASK.fullmatch(fields.get("tres_per_task") or "")
    if fields.get("tasks") or not (of_job and of_task) or of_job[1] != of_task[1]:
        return {}
    tasks, rest = divmod(int(of_job[2] or 1), int(of_task[2] or 1) or 1)
    return {"tasks": tasks} if tasks and not rest else {}


def _without_nodes(fields: Fields) -> Fields:
    """A list of nodes counts as their number. Slurm itself knows that, but for the tasks that depend on it."""
    tasks, per_node = fields.get("tasks"), fields.get("tasks_per_node")
    if named := fields.get("required_nodes"):
        factors = [fields[name] for name in _PER_NODE if fields.get(name)]
        nodes = _count_named(",".join(named))
        if tasks and nodes and tasks < nodes:
            return {"nodes": str(tasks)}
        return {"tasks": math.prod(factors, start=nodes)} if factors and nodes and not (tasks or per_node) else {}
    if not (tasks and per_node) or fields.get("minimum_nodes"):
        return {}
    return {"minimum_nodes": -(-tasks // per_node)}


def _count_named(text: str) -> int | None:
    """The number of different nodes in a list such as `w1,w[2-3]`; None for one in another notation, or a long one."""
    names: set[str] = set()
    for item in _ITEM.findall(text):
        found = _RANGES.fullmatch(item)
        if found is None:
            return None
        prefix, ranges = found.groups()
        for first, _, last in (each.partition("-") for each in (ranges or "").split(",")):
            numbers = range(int(first), int(last or first) + 1) if first else ()
            if len(names) + len(numbers) > _MAX_NAMED:
                return None
            names |= {f"{prefix}{number:0{len(first)}}" for number in numbers} if first else {prefix}
    return len(names)


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
