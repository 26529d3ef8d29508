"""What every submission goes through before Slurm is asked: checks, the script's directives, the limits of workers."""

import posixpath
from collections.abc import Sequence
from dataclasses import replace

from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import JobDescription, Submit
from clusterra_sbatch.applying import Applied, apply
from clusterra_sbatch.job_values import check_values
from clusterra_sbatch.problems import InvalidScript
from clusterra_sbatch.script_job import ScriptJob

from clusterra_proxy.admission import job_limits
from clusterra_proxy.admission.bounds import check_bounds
from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.mails import with_own_mail
from clusterra_proxy.slurmrestd.errors import Invalid, Rejected

NO_SCRIPT = "#!/bin/sh\n"
"""Stands for the script where a component is translated that has none: directives are of the first component."""


async def translate_all(cluster: Cluster, request: Submit | Prepare) -> tuple[Applied, ...]:
    """Return a job, and after it its further components if it is a heterogeneous one. Directives are of the first.

    As with sbatch, components without a name, an account or a time limit get those of the first. Raises as
    `_translate`, and Invalid for what Slurm does not let components have.
    """
    first = await _translate(cluster, request.user, request.script, request.job, request.further)
    own, told = with_own_mail(first.job, request.user, request.email, mails=cluster.mails)
    first = replace(first, job=own, warnings=(*first.warnings, *told))
    translated = [first]
    for number, each in enumerate(request.components, start=1):
        try:
            one = await _translate(cluster, request.user, NO_SCRIPT, _inheriting(each.job, first.job), each.further)
            # As Slurm does: a heterogeneous job is told once, by its first component.
            one = replace(one, job=one.job.model_copy(update={"mail_type": None, "mail_user": None}))
        except (Invalid, Rejected) as error:
            error.error = error.error.model_copy(update={"detail": f"component {number}: {error.error.detail}"})
            raise
        translated.append(one)
    if request.components:
        _check_components([each.job for each in translated], cluster.binding.policy.max_workers)
    return tuple(translated)


def _inheriting(job: JobDescription, first: ScriptJob) -> JobDescription:
    default = JobDescription.model_fields["name"].default
    name = first.name if job.name == default else job.name
    inherited = {
        "name": name,
        "account": job.account or first.account,
        "time_limit": job.time_limit or first.time_limit,
    }
    return job.model_copy(update=inherited)


def _check_components(jobs: Sequence[ScriptJob], max_workers: int) -> None:
    for number, job in enumerate(jobs):
        if job.array:
            raise Invalid(
                f"component {number}: a heterogeneous job cannot be an array", hint="submit several heterogeneous jobs"
            )
        if job.account != jobs[0].account:
            raise Invalid(
                f"component {number}: its account is not that of the first component",
                hint="name one account for all components: quotas count a job in one",
            )
    # Components never share a node.
    nodes = sum(max(job_limits.node_range(job)[0], 1) for job in jobs)
    if nodes > max_workers:
        raise Rejected(
            f"the components request {nodes} nodes together, but the cluster may have {max_workers} workers",
            hint=f"request at most {max_workers} nodes in all components",
        )


async def _translate(
    cluster: Cluster, user: SlurmUser, script: str, job: JobDescription, further: FurtherFields
) -> Applied:
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
    try:
        check_values(applied.job)
    except ValueError as error:
        raise Invalid(str(error), hint="write it as sbatch takes it") from None
    _check_container(cluster, applied.job)
    await check_limits(cluster, applied.job)
    lost = outputs_outside(applied.job, working_directory(cluster, user, job, applied.job), cluster.binding.shared_path)
    return replace(applied, warnings=(*applied.warnings, *lost)) if lost else applied


def submit_directory(cluster: Cluster, user: SlurmUser, asked: JobDescription) -> str:
    """The directory in which sbatch would have been called: the request's own, else the user's home.

    A relative one counts from the shared folder. The home is closed to others, and the shared folder is not.
    """
    shared = cluster.binding.shared_path
    return posixpath.normpath(posixpath.join(shared, asked.current_working_directory or user.home_in(shared)))


def working_directory(cluster: Cluster, user: SlurmUser, asked: JobDescription, job: ScriptJob) -> str:
    """The directory in which a job starts: `submit_directory`, from where a relative `--chdir` of the script counts.

    The request's own directory goes before the script's.
    """
    chdir = None if asked.current_working_directory else job.current_working_directory
    return posixpath.normpath(posixpath.join(submit_directory(cluster, user, asked), chdir or ""))


def outputs_outside(job: ScriptJob, directory: str, shared: str) -> tuple[str, ...]:
    """A warning for each output that goes to a file of the worker alone, where nobody can read it."""
    given = (("standard_output", job.standard_output), ("standard_error", job.standard_error))
    paths = {field: posixpath.normpath(posixpath.join(directory, path)) for field, path in given if path}
    return tuple(
        f"{field} is {path[:200]}, which is outside of the shared folder {shared}: it is lost with the worker"
        for field, path in paths.items()
        if path != "/dev/null" and not f"{path}/".startswith(f"{posixpath.normpath(shared)}/")
    )


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


async def check_limits(cluster: Cluster, job: ScriptJob) -> None:
    """Reject jobs that no worker could run. When the cluster has nodes other than workers, only Slurm decides."""
    try:
        job_limits.check(cluster.binding, job, job_limits.PerGpu.parse(job.cpus_per_tres, job.memory_per_tres))
    except Rejected:
        shapes = {shape.name for shape in cluster.binding.catalogue.shapes}
        listed = None if cluster.nodes_fresh else await cluster.slurmctld.nodes(cluster.mint.operator_token())
        nodes = listed[0] if listed else cluster.nodes.values()
        if all(shapes & set(node.features) for node in nodes):
            raise
