"""`wait`: waits for jobs that were submitted before, and ends with their exit code."""

from typing import Annotated

import typer

from clusterra_cli.completion import known_jobs
from clusterra_cli.connection import Cluster, Json, Url, connected, job_of
from clusterra_cli.following import end_of, follow, interruptible
from clusterra_cli.output import Output
from clusterra_cli.usage import WrongUsage


def add_to(command: typer.Typer) -> None:
    """Add this command."""
    command.command()(wait)


def wait(
    job_ids: Annotated[
        list[str],
        typer.Argument(metavar="JOB...", autocompletion=known_jobs, help="Jobs, such as 42, or tasks of arrays: 42_7."),
    ],
    following: Annotated[
        bool, typer.Option("--follow", "-f", help="Print the output of the job, from its start, as it is written.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Wait for N seconds at most, then end with 1.")
    ] = None,
    json: Json = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Wait until jobs have ended, and end with the job's exit code; of several jobs with the greatest.

    With --json a line for each job that has ended.
    """
    if following and (len(job_ids) > 1 or timeout is not None):
        raise WrongUsage("--follow takes one job, and no --timeout")
    output, code = Output(json), 0
    with connected(url, cluster) as client, interruptible(*job_ids):
        jobs = [job_of(client, each) for each in dict.fromkeys(job_ids)]
        if following:
            code = follow(jobs[0], output)
        else:
            for job in client.as_completed(jobs, timeout):
                code = max(code, end_of(job.record, output))
    raise typer.Exit(code)
