"""`cancel`, `hold`, `release`, `requeue`, `signal` and `update`: changes of jobs after their submit."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.completion import known_jobs
from clusterra_cli.connection import Cluster, Json, Quiet, Url, connected, job_of
from clusterra_cli.output import Output, note
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Job

JobArguments = Annotated[
    list[str],
    typer.Argument(metavar="JOB...", autocompletion=known_jobs, help="Jobs, such as 42, or tasks of an array: 42_7."),
]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    for each in (cancel, hold, release, requeue, signal, update):
        command.command()(each)


def cancel(
    jobs: JobArguments, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Cancel jobs."""
    _change(jobs, "cancelled", lambda job: job.cancel(), Output(json, quiet), url, cluster)


def hold(
    jobs: JobArguments, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Keep pending jobs from starting until they are released."""
    _change(jobs, "held", lambda job: job.hold(), Output(json, quiet), url, cluster)


def release(
    jobs: JobArguments, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Let held jobs start."""
    _change(jobs, "released", lambda job: job.release(), Output(json, quiet), url, cluster)


def requeue(
    jobs: JobArguments,
    held: Annotated[bool, typer.Option("--hold", help="Hold the jobs until they are released.")] = False,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """End running jobs and queue them again; or queue jobs again that have ended."""
    _change(jobs, "requeued", lambda job: job.requeue(hold=held), Output(json, quiet), url, cluster)


def signal(
    jobs: JobArguments,
    name: Annotated[str, typer.Option("--signal", "-s", help="The signal, such as USR1.")] = "TERM",
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Send a signal to the processes of running jobs."""
    wanted = name.upper().removeprefix("SIG")
    _change(jobs, "signalled", lambda job: job.signal(wanted), Output(json, quiet), url, cluster)


def update(
    jobs: JobArguments,
    fields: Annotated[
        list[str],
        typer.Option("--set", "-s", metavar="FIELD=VALUE", help="A field, such as time_limit=90 (minutes) or nice=10."),
    ],
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Change the description of jobs. The gateway names the fields that can be changed."""
    changes = dict(map(_field, fields))
    _change(jobs, "changed", lambda job: job.update(**changes), Output(json, quiet), url, cluster)


def _field(text: str) -> tuple[str, object]:
    """A field with its value: numbers, true and false are JSON's, everything else is text. Raises WrongUsage."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise WrongUsage(f"--set {text}: it must be FIELD=VALUE, such as time_limit=90")
    if value in ("true", "false"):
        return name, value == "true"
    if value.lstrip("-").isdecimal() and value.isascii() and len(value) < 19:
        return name, int(value)
    return name, value.split(",") if name in _LISTS else value


_LISTS = frozenset({"excluded_nodes"})
"""The fields that are lists."""


def _change(
    job_ids: Sequence[str],
    done: str,
    change: "Callable[[Job], None]",
    output: Output,
    url: str | None,
    cluster: str | None,
) -> None:
    """Change each job, also after one that could not be changed; then end with the code of the first that could not."""
    from clusterra.errors import ApiError, SignInNeeded

    code = 0
    changed: list[str] = []
    with connected(url, cluster) as client:
        for job_id in dict.fromkeys(job_ids):
            try:
                change(job_of(client, job_id))
            except SignInNeeded:
                raise
            except ApiError as error:
                if len(job_ids) == 1:
                    raise
                note(f"job {job_id}:")
                code = code or exit_codes.told(error) or exit_codes.FAILED
            else:
                changed.append(job_id)
                if output.quiet:
                    output.text(job_id)
                elif not output.json:
                    output.text(f"job {job_id} is {done}")
    if output.json:
        output.document({"jobs": changed})
    if code:
        raise typer.Exit(code)
