"""What jobs ask for and would cost, by their records."""

from collections.abc import Iterable

from clusterra_contracts.rpc.slurm import Job
from clusterra_contracts.rpc.slurm_jobs import Update
from clusterra_contracts.shapes import Catalogue

from clusterra_gateway.money.quotas.job_list import request_of
from clusterra_gateway.money.quotas.projection import projected_together, task_count


def projected_of(jobs: Iterable[Job], catalogue: Catalogue) -> int | None:
    """Return the cost of a job's components, or of an array and its tasks with records of their own.

    None where one of them has none. A task counts once: the array may still list one whose own record is there already.
    """
    known = tuple(jobs)
    apart = [int(task) for job in known if (task := job.job_id.partition("_")[2]).isdecimal()]
    return projected_together(((request_of(job), task_count(job.array_tasks, apart)) for job in known), catalogue)


def changed_by(job: Job, update: Update) -> Job:
    """Return the job after a change, as far as its cost depends on it. More tasks have no fewer CPUs each."""
    changes, further = update.changes, update.further
    updates: dict[str, object] = {}
    if changes.time_limit is not None:
        updates["time_limit_seconds"] = changes.time_limit * 60.0
    if further.memory_per_node is not None or further.memory_per_cpu is not None:
        updates |= {"memory_per_node_mib": further.memory_per_node, "memory_per_cpu_mib": further.memory_per_cpu}
    if further.tasks is not None:
        updates["cpus"] = -(-job.cpus * further.tasks // max(job.tasks, 1))
    return job.model_copy(update=updates)
