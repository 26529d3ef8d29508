"""What slurmdbd alone knows of a job that has ended: the memory and CPUs that it used, and who cancelled it.

slurmctld sends it to slurmdbd right after the end, but slurmdbd may be late. So it is asked again, for a bounded time.
"""

import asyncio
from datetime import timedelta

import structlog
from clusterra_contracts.identity import now
from clusterra_contracts.job_states import OUT_OF_MEMORY
from clusterra_contracts.rpc.slurm import Job

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.accounting_records import AccountingUsage, RunUsage
from clusterra_proxy.slurmrestd.errors import SlurmFailed
from clusterra_proxy.slurmrestd.records import JobRecord

log = structlog.get_logger(__name__)

MOST_SECONDS = 3.0
"""How long the answer for a job waits for slurmdbd at most."""
PAUSE_SECONDS = 0.3
LATE = timedelta(minutes=1)
"""A job that ended longer ago is asked for once: what slurmdbd lacks then was never sent, as of a node that failed."""
UNKNOWN_SECONDS = 10.0
"""How long slurmdbd is not asked again for a job of which it did not know all: each answer would wait for it."""
_MOST_DIGITS = 10
"""Of a uid."""


async def with_usage(cluster: Cluster, job: Job, record: JobRecord) -> Job:
    """Return a job that has ended with what it used, as far as slurmdbd tells; any other job as it is.

    Of array tasks that never started slurmdbd has no record of their own.
    """
    if not job.ended_at or record.never_started_tasks:
        return job
    run = (record.job_id, record.submit_time, record.restart_cnt)
    usage = cluster.accounting.usages.get(run)
    if usage is None:
        late = now() - job.ended_at > LATE
        read = await _read(cluster, record, once=late)
        usage = RunUsage() if read is None else _usage(cluster, job, read)
        final = read is not None and (read.complete or late)
        cluster.accounting.usages.put(run, usage, seconds=None if final else UNKNOWN_SECONDS)
    available = (job.ended_at - job.started_at).total_seconds() * job.cpus if job.started_at else 0.0
    has_efficiency = usage.cpu_seconds is not None and available > 0
    return job.model_copy(
        update={
            "reason": OUT_OF_MEMORY if _exceeds_memory(job, usage.peak_memory_mib) else job.reason,
            "peak_memory_mib": usage.peak_memory_mib,
            "cpu_efficiency": round((usage.cpu_seconds or 0.0) / available, 3) if has_efficiency else None,
            "cancelled_by": usage.cancelled_by,
        }
    )


async def _read(cluster: Cluster, record: JobRecord, *, once: bool) -> AccountingUsage | None:
    """Return the usage of a run, complete if slurmdbd has all of it in time; None where it cannot be read.

    A job may have too many steps to read them.
    """
    usage = None
    try:
        async with asyncio.timeout(MOST_SECONDS):
            while True:
                usage = await cluster.accounting.usage(cluster.mint.operator_token(), record)
                if once or (usage is not None and usage.complete):
                    break
                await asyncio.sleep(PAUSE_SECONDS)
    except TimeoutError:
        log.info("usage_incomplete", job_id=record.id)
    except SlurmFailed as failed:
        log.warning("usage_unknown", job_id=record.id, reason=failed.error.detail)
    return usage


def _usage(cluster: Cluster, job: Job, read: AccountingUsage) -> RunUsage:
    # With a reason, Slurm itself has cancelled it.
    killer = read.kill_request_user if job.state == "CANCELLED" and not job.reason else ""
    if killer.isascii() and killer.isdecimal() and len(killer) <= _MOST_DIGITS:
        killer = cluster.mint.names.name(int(killer))
    # On behalf of administrators the proxy cancels as its own user: the events of actions have their names.
    cancelled_by = None if killer in ("", cluster.binding.operator.name) else killer
    return RunUsage(
        read.cpu_seconds if read.steps else None, read.peak_memory_mib if job.started_at else None, cancelled_by
    )


def _exceeds_memory(job: Job, peak_memory_mib: int | None) -> bool:
    """Whether slurmstepd has killed a job for its memory: without cgroups Slurm calls that the signal 9."""
    asked = job.memory_per_node_mib or (job.memory_per_cpu_mib or 0) * -(-job.cpus // job.node_count)
    killed = job.signal == 9 and job.reason.startswith("RaisedSignal")
    return killed and 0 < asked < (peak_memory_mib or 0)
