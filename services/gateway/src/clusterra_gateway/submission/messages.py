"""A job to submit, as messages on the bus have it."""

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_contracts.rpc.slurm import Component, JobDescription, Submit
from clusterra_sbatch.parsing import Directive, scan

from clusterra_gateway.identity.access.unix_users import Person
from clusterra_gateway.submission.models import AnyJob, WorkflowJobSubmission


def submit_message(who: Person, submission: AnyJob, key: str | None) -> Submit:
    """The request to submit a job as this person. Raises Forbidden where they are nobody on the cluster."""
    return Submit(
        user=who.slurm_user,
        email=who.member.email,
        script=submission.script,
        job=submission.jobs[0].description,
        further=submission.jobs[0].further,
        components=_further_components(submission),
        idempotency_key=key,
        kill_on_invalid_dependency=isinstance(submission, WorkflowJobSubmission),
    )


def prepare_message(user: SlurmUser, submission: AnyJob) -> Prepare:
    """The request to check and translate a job, which makes none."""
    return Prepare(
        user=user,
        script=submission.script,
        job=submission.jobs[0].description,
        further=submission.jobs[0].further,
        components=_further_components(submission),
    )


def asks_for_hold(script: str, job: JobDescription) -> bool:
    """Whether the job is to be held after its submit: by its own `hold`, or else by an `#SBATCH` line.

    A template writes such a line.
    """
    if job.hold is not None:
        return job.hold
    return any(isinstance(each, Directive) and each.option.long == "hold" for each in scan(script))


def _further_components(submission: AnyJob) -> tuple[Component, ...]:
    """The components of a heterogeneous job after the first; empty for any other job."""
    return tuple(Component(job=each.description, further=each.further) for each in submission.jobs[1:])
