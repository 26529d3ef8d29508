"""Translates a submission into what a queue snapshot would show of its job, without making one."""

import re
from datetime import UTC, datetime

from clusterra_contracts.gres import gpus_of_job, parse_request
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.estimate import ESTIMATED_JOB_ID, Prepare, Prepared
from clusterra_sbatch.script_job import ScriptJob

from clusterra_proxy.admission.job_limits import PerGpu, node_range
from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.accounts.check import check_account
from clusterra_proxy.requests.sbatch_fields import minimum_cpus
from clusterra_proxy.requests.translation import translate_all
from clusterra_proxy.slurmrestd.answers import PartitionDefaults
from clusterra_proxy.slurmrestd.errors import Invalid, Rejected, Unavailable
from clusterra_proxy.slurmrestd.gres import gres_request
from clusterra_proxy.slurmrestd.notation import array_tasks, hostlist
from clusterra_proxy.slurmrestd.reading.fields import YEAR_MINUTES

_THROTTLE = re.compile(r"%([0-9]{1,9})")
_CLASS = "open=1|estimated=1"
"""The expression of a job class of its own, in place of that which `job_submit.lua` would give the job."""


async def prepare(cluster: Cluster, request: Prepare) -> Prepared:
    """Check a submission as `submit` does, and translate it. Raises the errors of `clusterra_proxy.slurmrestd.errors`.

    Slurm is asked for its partitions and the accounts of the user, who gets associations if they have none. It has no
    request that says whether it would accept a job.
    """
    await cluster.user_token(request.user)
    applied = await translate_all(cluster, request)
    jobs = [each.job for each in applied]
    await check_account(cluster, request.user, jobs[0].account or "")
    named = {name for job in jobs if job.partition for name in job.partition.split(",")}
    try:
        known = await cluster.recent.partitions.get()
    except Unavailable:
        if named:
            raise
        known = {}
    if unknown := sorted(named - known.keys()):
        raise Rejected(f"there is no partition {unknown[0]}", hint=f"use one of {', '.join(sorted(known))}")
    at = now()
    usual = cluster.binding.partition
    first, *further = (
        pending_of(job, request.user, usual, at, known.get(_first_partition(job, usual), PartitionDefaults()))
        for job in jobs
    )
    if further:
        first, *further = _components(first, *further)
    return Prepared(
        job=first,
        tasks=_tasks_of_array(jobs[0]),
        array=bool(jobs[0].array),
        warnings=tuple(warning for each in applied for warning in each.warnings),
        components=tuple(further),
    )


def _components(*jobs: PendingJobs) -> list[PendingJobs]:
    """The components of one heterogeneous job. They have no class: `job_submit.lua` says why."""
    return [
        job.model_copy(update={"het_job_id": ESTIMATED_JOB_ID, "het_offset": offset, "extra": ""})
        for offset, job in enumerate(jobs)
    ]


def _first_partition(job: ScriptJob, usual: str) -> str:
    return (job.partition or usual).split(",")[0]


def pending_of(
    job: ScriptJob, user: SlurmUser, partition: str, at: datetime, defaults: PartitionDefaults | None = None
) -> PendingJobs:
    """Return a job as it would wait in Slurm's queue. `partition` is where a job runs that names none.

    `defaults` are those of its partition. Where the cluster as a whole has a default, it is unknown here.
    """
    job = _with_defaults(job, defaults or PartitionDefaults())
    nodes, max_nodes = _nodes(job)
    per_gpu = PerGpu.parse(job.cpus_per_tres, job.memory_per_tres)
    tasks = max(job.tasks or nodes * (job.tasks_per_node or 1), 1)
    cpus_per_task = max(job.cpus_per_task or 1, 1)
    own_cpus = 0 if job.overcommit else tasks * cpus_per_task
    gres = _gres(job)
    gpus = gpus_of_job(parse_request(gres), tasks, nodes)
    cpus = max(own_cpus, job.minimum_cpus or 0, gpus * per_gpu.cpus, nodes)
    # `job_submit.lua` gives such a job a class, so that workers may be closed to it.
    classed = nodes == 1 and not (job.required_nodes or job.reservation or gres)
    cpus_per_node = max((job.tasks_per_node or 1) * cpus_per_task, job.minimum_cpus_per_node or 1)
    if classed and max_nodes == 1:
        # So does `job_submit.lua`: Slurm then knows at submit which nodes are too small.
        cpus_per_node = max(cpus_per_node, minimum_cpus(job) or 1)
    shared = frozenset(job.shared or ())
    begins_at = _begin(job, at)
    count = _tasks_of_array(job)
    throttle = _throttle(job)
    return PendingJobs(
        job_ids=(ESTIMATED_JOB_ID,),
        count=min(count, throttle) if throttle else count,
        cpus=cpus,
        cpus_per_task=cpus_per_task,
        cpus_per_node=cpus_per_node,
        tasks=tasks,
        nodes=nodes,
        max_nodes=max_nodes,
        memory_per_node_mib=job.memory_per_node,
        memory_per_cpu_mib=job.memory_per_cpu or None,
        memory_per_gpu_mib=per_gpu.memory_mib or None,
        features=job.constraints or "",
        gres=gres,
        exclusive=not {"none", "topo"}.isdisjoint(shared),
        exclusive_user=not {"user", "mcs"}.isdisjoint(shared),
        required_nodes=_hosts("required_nodes", job.required_nodes),
        excluded_nodes=_hosts("excluded_nodes", job.excluded_nodes),
        partition=job.partition or partition,
        reservation=job.reservation or "",
        uid=user.uid,
        reason=_reason(job, begins_at),
        held=bool(job.hold),
        dependent=bool(job.dependency),
        begins_at=begins_at,
        time_limit_seconds=job.time_limit * 60.0 if job.time_limit and job.time_limit != YEAR_MINUTES else None,
        first_submitted_at=at,
        extra=_CLASS if classed else "",
    )


def _with_defaults(job: ScriptJob, defaults: PartitionDefaults) -> ScriptJob:
    found: dict[str, int | None] = {}
    if job.memory_per_node is None and not job.memory_per_cpu and not job.memory_per_tres:
        found["memory_per_cpu"] = defaults.partition_memory_per_cpu or None
        found["memory_per_node"] = defaults.partition_memory_per_node or None
    if not job.time_limit:
        found["time_limit"] = defaults.time
    return job.model_copy(update={name: value for name, value in found.items() if value})


def _nodes(job: ScriptJob) -> tuple[int, int | None]:
    """The least and the most nodes. Tasks that are counted per node need as many nodes as hold them all."""
    fewest, most = node_range(job)
    fewest = max(fewest, 1)
    if job.tasks and job.tasks_per_node:
        fewest = max(fewest, -(-job.tasks // job.tasks_per_node))
    return fewest, None if most is None else max(most, fewest)


def _gres(job: ScriptJob) -> str:
    """As `gres.requested_gres` writes them of a job's record. A socket counts as a node: a worker has one."""
    if job.ntasks_per_tres:
        return f"job/gpu={-(-(job.tasks or 1) // job.ntasks_per_tres)}"
    per_node = ",".join(filter(None, (job.tres_per_node, job.tres_per_socket)))
    return gres_request(per_node, job.tres_per_task or "", job.tres_per_job or "")


def _tasks_of_array(job: ScriptJob) -> int:
    """The number of tasks of an array; 1 for another job. Raises Invalid for what is no list of tasks."""
    if not job.array:
        return 1
    try:
        array_tasks.check(job.array)
    except ValueError as error:
        raise Invalid(f"array: {error}", hint="split it into several arrays") from None
    if not (count := array_tasks.count(job.array)):
        raise Invalid("array: it names no task", hint="write it like 0-9, 1,3,5 or 0-99%10")
    return count


def _throttle(job: ScriptJob) -> int | None:
    found = _THROTTLE.search(job.array or "")
    return int(found[1]) if found else None


def _hosts(field: str, names: tuple[str, ...] | None) -> tuple[str, ...]:
    try:
        return hostlist.expand(",".join(names or ()))
    except ValueError as error:
        raise Invalid(f"{field}: {error}", hint="write them like w1 or w[1-4]") from None


def _begin(job: ScriptJob, at: datetime) -> datetime | None:
    begin = datetime.fromtimestamp(job.begin_time, UTC) if job.begin_time else None
    return begin if begin is not None and begin > at else None


def _reason(job: ScriptJob, begins_at: datetime | None) -> str:
    """Slurm's reason for what the job waits for besides nodes."""
    if job.hold:
        return "JobHeldUser"
    if job.dependency:
        return "Dependency"
    if begins_at is not None:
        return "BeginTime"
    return "Reservation" if job.reservation else "Resources"
