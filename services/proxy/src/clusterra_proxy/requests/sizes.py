"""Checks changes of what a job asks for against the limits of workers: Slurm takes any memory, whatever nodes have."""

from collections.abc import Sequence
from typing import Any

from clusterra_contracts.rpc.slurm_jobs import FurtherChanges
from clusterra_sbatch.script_job import ScriptJob

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.translation import check_limits
from clusterra_proxy.slurmrestd.errors import Conflict, Invalid
from clusterra_proxy.slurmrestd.records import JobRecord


async def checked_sizes(cluster: Cluster, records: Sequence[JobRecord], changes: FurtherChanges) -> dict[str, int]:
    """Return the fields that go with a change of the sizes of a job, or of all tasks of an array, for slurmrestd.

    Slurm would change the number of tasks and not the CPUs of tasks with several, so the CPUs are changed with it.
    Raises Conflict for a job that runs, Rejected for one that no worker could then run, and Invalid for memory in two
    ways.
    """
    if changes.memory_per_node is not None and changes.memory_per_cpu is not None:
        raise Invalid("memory_per_node and memory_per_cpu exclude each other", hint="change one of them")
    if changes.tasks is None and changes.memory_per_node is None and changes.memory_per_cpu is None:
        return {}
    record = records[0]
    if started := next((each for each in records if each.state != "PENDING"), None):
        raise Conflict(
            f"job {started.id} is {started.state.lower()}: what it asks for can only be changed while it waits",
            hint="submit it again with other memory or tasks",
        )
    await check_limits(cluster, _changed(record, changes))
    return {} if changes.tasks is None else _cpus(record, changes.tasks)


def sizes_of(record: JobRecord) -> dict[str, int]:
    """Return the fields that give a job back the tasks and CPUs of its record."""
    fields = {
        "tasks": record.tasks,
        "minimum_cpus": record.cpus,
        "minimum_cpus_per_node": record.minimum_cpus_per_node,
    }
    return {name: value for name, value in fields.items() if value}


def _changed(record: JobRecord, changes: FurtherChanges) -> ScriptJob:
    """The job after the change. As many nodes as it has tasks are no request, but Slurm's own bound."""
    per_node = changes.memory_per_node or (None if changes.memory_per_cpu else record.memory_per_node)
    fields: dict[str, Any] = {
        "environment": ("PATH=",),
        "minimum_nodes": record.min_nodes,
        "maximum_nodes": None if record.max_nodes in (None, record.tasks) else record.max_nodes,
        "tasks": changes.tasks or record.tasks,
        "cpus_per_task": record.cpus_per_task,
        "memory_per_node": per_node or None,
        "memory_per_cpu": None if per_node else changes.memory_per_cpu or record.memory_per_cpu,
        "constraints": record.features or None,
        "tres_per_node": record.tres_per_node or None,
        "tres_per_task": record.tres_per_task or None,
        "tres_per_job": record.tres_per_job or None,
    }
    return ScriptJob.model_validate(fields)


def _cpus(record: JobRecord, tasks: int) -> dict[str, int]:
    cpus = tasks * max(record.cpus_per_task or 1, 1)
    per_node = record.minimum_cpus_per_node or 1
    return {"minimum_cpus": cpus} | ({"minimum_cpus_per_node": cpus} if per_node > cpus else {})
