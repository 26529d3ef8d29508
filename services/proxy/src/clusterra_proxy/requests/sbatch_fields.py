"""The fields that sbatch would send to Slurm for a job, by the names of slurmrestd.

sbatch tells Slurm how many CPUs a job needs in all. slurmrestd does not: slurmctld counts them later, after
`job_submit.lua`, which has Slurm compare the CPUs of a job on one node with those of each node. The count is made here
and not in `clusterra_sbatch`, as it depends on the whole job, whether a script or a request describes it.
"""

from typing import Any

from clusterra_sbatch.applying import Applied
from clusterra_sbatch.script_job import ScriptJob

from clusterra_proxy.admission.bounds import MAX_NUMBER
from clusterra_proxy.admission.job_limits import node_range

NO_LIMIT = {"set": True, "infinite": True, "number": 0}
"""How slurmrestd takes a time without an end. What is not set is the partition's default."""


def sbatch_fields(applied: Applied) -> dict[str, Any]:
    """Return the fields of a job by slurmrestd's names, with what sbatch adds to those that are given."""
    job = applied.job
    fields = job.model_dump(mode="json", exclude_none=True)
    if applied.unlimited:
        fields["time_limit"] = NO_LIMIT
    # Slurm has no larger number: slurmctld decides then, as it does without a count.
    if (cpus := minimum_cpus(job)) is not None and cpus <= MAX_NUMBER:
        fields["minimum_cpus"] = cpus
    return fields


def minimum_cpus(job: ScriptJob) -> int | None:
    """Return how many CPUs a job needs in all, as sbatch counts them; None leaves the count to slurmctld.

    It is the number of tasks times the CPUs per task. With a fixed number of nodes, a job that names no number of tasks
    has its `tasks_per_node`, or one, on each node. With `overcommit` only nodes count.

    A job that names its fewest or most CPUs stays as it is: sbatch has no such options. slurmctld counts the nodes of a
    list itself. Raises ValueError for nodes that are no number.
    """
    if job.minimum_cpus is not None or job.maximum_cpus is not None or (job.required_nodes and not job.nodes):
        return job.minimum_cpus
    fewest, most = node_range(job)
    if job.overcommit:
        # How many nodes the tasks need, so many on each, sbatch finds out only after this count.
        return 1 if job.tasks and job.tasks_per_node and not job.nodes else max(fewest, 1)
    tasks = _tasks(job, fewest, fixed=most in (None, fewest))
    if job.cpus_per_task:
        return tasks * job.cpus_per_task
    return tasks if fewest else 0


def _tasks(job: ScriptJob, fewest: int, *, fixed: bool) -> int:
    """The number of tasks. Where the number of nodes is open, sbatch counts one task, and slurmctld raises the CPUs."""
    if job.tasks is not None:
        return job.tasks
    if not fixed:
        return 1
    return fewest * job.tasks_per_node if job.tasks_per_node else max(fewest, 1)
