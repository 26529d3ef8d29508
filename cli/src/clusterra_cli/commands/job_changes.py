"""`cancel`, `hold`, `release`, `requeue`, `signal` and `update`: changes of jobs after their submit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.completion import known_jobs
from clusterra_cli.connection import Cluster, Json, Quiet, Url, connected, job_of
from clusterra_cli.output import Output
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Job

JobArguments = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB...",
        autocompletion=known_jobs,
        help="Jobs, such as 42, or tasks of an array, such as 42_7 and '42_[1-3,5]'.",
    ),
]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    for each in (cancel, hold, release, requeue, signal, update):
        command.command()(each)


def cancel(
    jobs: JobArguments, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Cancel jobs."""
    _change(jobs, _Change("cancelled", lambda job: job.cancel()), Output(json, quiet), url, cluster)


def hold(
    jobs: JobArguments, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Keep pending jobs from starting until they are released."""
    _change(jobs, _Change("held", lambda job: job.hold()), Output(json, quiet), url, cluster)


def release(
    jobs: JobArguments, json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None
) -> None:
    """Let held jobs start."""
    _change(jobs, _Change("released", lambda job: job.release()), Output(json, quiet), url, cluster)


def requeue(
    jobs: JobArguments,
    held: Annotated[bool, typer.Option("--hold", help="Hold the jobs until they are released.")] = False,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """End running jobs and queue them again; or queue jobs again that have ended."""
    _change(jobs, _Change("requeued", lambda job: job.requeue(hold=held)), Output(json, quiet), url, cluster)


def signal(
    jobs: JobArguments,
    name: Annotated[str, typer.Option("--signal", "-s", help="The signal, such as USR1.")] = "TERM",
    batch_only: Annotated[bool, typer.Option("--batch", "-b", help="Only the batch script gets it.")] = False,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Send a signal to the processes of running jobs."""
    wanted = name.upper().removeprefix("SIG")
    _change(
        jobs,
        _Change("signalled", lambda job: job.signal(wanted, batch_only=batch_only)),
        Output(json, quiet),
        url,
        cluster,
    )


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
    _change(jobs, _Change("changed", lambda job: job.update(**changes)), Output(json, quiet), url, cluster)


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


@dataclass(frozen=True)
class _Change:
    """A change of a job, an array or some tasks."""

    outcome: str
    """What the job is then, such as `held`."""
    carry_out: "Callable[[Job], None]"


def _change(job_ids: Sequence[str], change: _Change, output: Output, url: str | None, cluster: str | None) -> None:
    """Change each of the jobs, also after one that could not be changed. Ends with the worst of the exit codes.

    A gateway that does not answer ends the command: what was not tried is reported as such.
    """
    from clusterra.errors import ApiError, SignInNeeded

    chosen = list(dict.fromkeys(job_ids))
    codes: list[int] = []
    rows = {each: {"job_id": each, "outcome": "not_tried", "detail": ""} for each in chosen}
    try:
        with connected(url, cluster) as client:
            # All ids are looked at before anything is changed.
            for job in [job_of(client, each, tasks=True) for each in chosen]:
                each = job.id
                try:
                    change.carry_out(job)
                except SignInNeeded:
                    raise
                except ApiError as error:
                    codes.append(exit_codes.report(error, f"job {each}") or exit_codes.FAILED)
                    rows[each] |= {"outcome": "failed", "detail": error.detail}
                else:
                    rows[each]["outcome"] = change.outcome
                    if output.quiet:
                        output.text(each)
                    elif not output.json:
                        output.text(f"job {each} is {change.outcome}")
    finally:
        if output.json:
            output.document({"jobs": list(rows.values())})
    if codes:
        raise typer.Exit(max(codes, key=exit_codes.WORSE.index))
