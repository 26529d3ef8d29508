"""What every submission goes through before Slurm is asked: checks, the script's directives, the limits of workers."""

from clusterra_contracts.identity import now
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_sbatch.applying import Applied, apply
from clusterra_sbatch.problems import InvalidScript
from clusterra_sbatch.script_job import ScriptJob

from clusterra_proxy.admission import job_limits
from clusterra_proxy.admission.bounds import check_bounds
from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import Invalid, Rejected


async def translate(cluster: Cluster, script: str, job: JobDescription, further: FurtherFields) -> Applied:
    """Return the job with the script's directives applied.

    Raises Invalid for what sbatch would reject, naming the lines, and Rejected for a job that no worker could run.
    """
    check_bounds(job)
    check_bounds(further)
    try:
        applied = apply(script, job, further, now=now())
    except InvalidScript as error:
        raise Invalid(str(error), hint=error.hint) from None
    check_bounds(applied.job)
    _check_container(cluster, applied.job)
    await _check_limits(cluster, applied.job)
    return applied


def _check_container(cluster: Cluster, job: ScriptJob) -> None:
    if job.container is None:
        return
    if not cluster.binding.containers:
        raise Rejected(
            "container: the cluster's workers have no container runtime for Slurm",
            hint="call one in the script, such as Apptainer, or ask an operator for a cluster with containers",
        )
    if not job.container.startswith("/"):
        raise Invalid("container: it is no absolute path", hint=f"name a bundle below {cluster.binding.shared_path}")


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
