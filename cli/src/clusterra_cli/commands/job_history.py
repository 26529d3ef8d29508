"""`script` and `timeline`: what a job was submitted with, and its stages since then."""

import typer

from clusterra_cli.commands.jobs import JobArgument
from clusterra_cli.connection import Cluster, Json, Url, connected, job_of
from clusterra_cli.output import Column, Output, duration, moment, note


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    for each in (script, timeline):
        command.command()(each)


def script(job_id: JobArgument, json: Json = False, url: Url = None, cluster: Cluster = None) -> None:
    """Print the script that a job was submitted with."""
    with connected(url, cluster) as client:
        found = job_of(client, job_id).script()
    if json:
        Output(json).document({"job_id": job_id, "script": found})
        return
    Output().program(found)


def timeline(job_id: JobArgument, json: Json = False, url: Url = None, cluster: Cluster = None) -> None:
    """Show the stages of a job, from its submit to its end, with the workers that were started for it."""
    output = Output(json)
    with connected(url, cluster) as client:
        found = job_of(client, job_id).timeline()
    if json:
        output.document(found)
        return
    output.table(
        (
            *(Column("STAGE"), Column("AT"), Column("AFTER", right=True)),
            *(Column("WORKER"), Column("SHAPE"), Column("REASON"), Column("DETAIL")),
        ),
        (
            (
                *(each.stage, moment(each.at), duration(each.seconds_since_previous)),
                *(each.worker, each.shape, each.reason, each.detail),
            )
            for each in found.stages
        ),
    )
    if not found.complete:
        note("some stages may be missing: not all events of the job could be read")
