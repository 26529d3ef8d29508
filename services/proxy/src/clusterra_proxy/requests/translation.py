"""What every submission goes through before Slurm is asked: checks, the script's directives, the limits of workers."""

from clusterra_contracts.identity import now
from clusterra_contracts.rpc.slurm import JobDescription

from clusterra_proxy.admission import job_limits
from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.sbatch import directives
from clusterra_proxy.sbatch.bounds import check_bounds
from clusterra_proxy.sbatch.directives import Applied
from clusterra_proxy.sbatch.script_job import ScriptJob
from clusterra_proxy.slurmrestd.errors import Invalid, Rejected


async def translate(cluster: Cluster, script: str, job: JobDescription) -> Applied:
    """Return the job with the script's directives applied.

    Raises Invalid for what sbatch would reject, naming the line, and Rejected for a job that no worker could run.
    """
    _check_script(script)
    check_bounds(job)
    applied = directives.apply(script, job, now=now())
    check_bounds(applied.job)
    await _check_limits(cluster, applied.job)
    return applied


def _check_script(script: str) -> None:
    if not script.startswith("#!"):
        raise Invalid(
            "line 1 of the script: it must name an interpreter",
            hint="start the script with a line such as #!/bin/bash",
        )
    if "\r\n" in script:
        line = script[: script.index("\r\n")].count("\n") + 1
        raise Invalid(f"line {line} of the script: it has a DOS line ending", hint="use Unix line endings")
    if "\0" in script:
        raise Invalid("the script contains a NUL byte", hint="a script must be text")


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
