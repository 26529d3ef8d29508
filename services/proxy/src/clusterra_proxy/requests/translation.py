"""What every submission goes through before Slurm is asked: checks, the script's directives, the limits of workers."""

from clusterra_contracts.identity import now
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_sbatch.applying import Applied, apply
from clusterra_sbatch.problems import InvalidScript
from clusterra_sbatch.script_job import ScriptJob

from clusterra_proxy.admission import job_limits
from clusterra_proxy.admission.bounds import check_bounds
from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import Invalid, Rejected


async def translate(cluster: Cluster, script: str, job: JobDescription) -> Applied:
    """Return the job with the script's directives applied.

    Raises Invalid for what sbatch would reject, naming the lines, and Rejected for a job that no worker could run.
    """
    check_bounds(job)
    try:
        applied = apply(script, job, now=now())
    except InvalidScript as error:
        raise Invalid(str(error), hint=error.hint) from None
    check_bounds(applied.job)
    await _check_limits(cluster, applied.job)
    return applied


async def _check_limits(cluster: Cluster, job: ScriptJob) -> None:
    """Reject jobs that no worker could run. When the cluster has nodes other than workers, only Slurm decides."""
    try:
        job_limits.check(cluster.binding, job, job_limits.PerGpu.parse(job.cpus_per_tres, job.memory_per_tres))
    except Rejected:
        shapes = {shape.name for shape in cluster.binding.catalogue.shapes}
        listed = None if cluster.nodes_fresh else await cluster.slurmctld.nodes(cluster.mint.operator_token())
        nodes = listed[0] if listed else cluster.nodes.values()
        if all(shapes & set(node.features) for node in nodes):
            raise
