"""`jobs`, `job`, `why` and `logs`: what there is to know of jobs."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.completion import known_jobs
from clusterra_cli.connection import Cluster, Json, Limit, Quiet, Url, connected, job_of
from clusterra_cli.following import Stream, print_output
from clusterra_cli.output import Column, JobText, Output, duration, moment, money, note
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra.models import Cost, JobRecord

JobArgument = Annotated[
    str,
    typer.Argument(metavar="JOB", autocompletion=known_jobs, help="A job, such as 42, or a task of an array: 42_7."),
]
_AGO = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_ENDED_WITHOUT = ("", "None")
"""Reasons that say nothing."""
_NOT_ENDED = frozenset({"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING"})
"""States of jobs that Slurm keeps."""


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    for each in (jobs, job, why, logs):
        command.command()(each)


def _elapsed(job: "JobRecord") -> float | None:
    if job.started_at is None:
        return None
    return ((job.ended_at or datetime.now(UTC)) - job.started_at).total_seconds()


def _reason(job: "JobRecord") -> str:
    """As squeue: the nodes of a job that has some, or why it waits or failed."""
    if job.nodes:
        return ",".join(job.nodes)
    return "" if job.reason in _ENDED_WITHOUT else f"({job.reason})"


_COLUMNS: Mapping[str, tuple[Column, Callable[["JobRecord"], object]]] = {
    "id": (Column("JOB", right=True), lambda job: job.job_id),
    "name": (Column("NAME"), lambda job: job.name),
    "user": (Column("USER"), lambda job: job.user),
    "account": (Column("ACCOUNT"), lambda job: job.account),
    "partition": (Column("PARTITION"), lambda job: job.partition),
    "qos": (Column("QOS"), lambda job: job.qos),
    "state": (Column("STATE"), lambda job: job.state),
    "time": (Column("TIME", right=True), lambda job: duration(_elapsed(job))),
    "limit": (Column("LIMIT", right=True), lambda job: duration(job.time_limit_seconds)),
    "cpus": (Column("CPUS", right=True), lambda job: job.cpus),
    "nodes": (Column("NODES", right=True), lambda job: job.node_count),
    "exit": (Column("EXIT", right=True), lambda job: job.exit_code),
    "submitted": (Column("SUBMITTED"), lambda job: moment(job.submitted_at)),
    "started": (Column("STARTED"), lambda job: moment(job.started_at)),
    "ended": (Column("ENDED"), lambda job: moment(job.ended_at)),
    "reason": (Column("NODES OR REASON"), _reason),
}
_USUAL = "id,name,user,state,time,cpus,exit,reason"


def jobs(
    states: Annotated[str, typer.Option("--state", "-t", help="Only jobs in these states: RUNNING,PENDING.")] = "",
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only jobs of this user.")] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="Only jobs of this name.")] = None,
    search: Annotated[
        str | None, typer.Option(help="Only jobs with this in their name, or the job or array of this id.")
    ] = None,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Only jobs of this partition.")] = None,
    account: Annotated[str | None, typer.Option("--account", "-A", help="Only jobs of this account.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only jobs submitted since then, also those that Slurm has forgotten: 2h, 3d or a date."),
    ] = None,
    sort: Annotated[
        str, typer.Option(help="The order: submitted, started, ended, name, user or state; - before it reverses.")
    ] = "-submitted",
    columns: Annotated[
        str, typer.Option("--format", "-o", help=f"The columns: {', '.join(_COLUMNS)}.", show_default=False)
    ] = _USUAL,
    limit: Limit = 100,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """List jobs, the newest first."""
    chosen = [_COLUMNS.get(each.strip().lower()) for each in columns.split(",")]
    if None in chosen:
        raise WrongUsage(f"--format {columns}: the columns are {', '.join(_COLUMNS)}")
    output = Output(json, quiet)
    with connected(url, cluster) as client:
        found = list(
            client.jobs(
                state=[each for each in states.upper().split(",") if each],
                user=user,
                name=name,
                search=search,
                partition=partition,
                account=account,
                submitted_after=None if since is None else point_in_time(since),
                sort=sort,
                limit=limit + 1,
            )
        )
    if len(found) > limit:
        note("there are more jobs: --limit raises their number")
    found = found[:limit]
    if since is None and not (json or quiet) and _asks_for_ended(states, found_none=not found):
        note("jobs that ended more than some minutes ago are listed with --since, such as --since 1d")
    if json:
        output.document(found)
    elif quiet:
        output.ids(each.job_id for each in found)
    else:
        shown = [each for each in chosen if each is not None]
        output.table([column for column, _ in shown], ([value(each) for _, value in shown] for each in found))


def _asks_for_ended(states: str, *, found_none: bool) -> bool:
    """Whether somebody may miss jobs that Slurm has forgotten: they ask for ended ones, or see none of any state."""
    chosen = {each.strip() for each in states.upper().split(",")} - {""}
    return found_none if not chosen else not chosen <= _NOT_ENDED


def point_in_time(text: str) -> datetime:
    """A time that is given as so long ago (`2h`), or as a date with or without a time, here. Raises WrongUsage."""
    try:
        if ago := _AGO.fullmatch(text):
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise WrongUsage(f"{text!r} is no time: give one such as 2h, 3d, 2026-11-20 or 2026-11-20T08:30") from None


def job(job_id: JobArgument, json: Json = False, url: Url = None, cluster: Cluster = None) -> None:
    """Show all of one job, and what it cost so far."""
    output = Output(json)
    with connected(url, cluster) as client:
        record = job_of(client, job_id).refresh()
    if json:
        output.document(record)
        return
    cost = record.cost
    memory = record.memory_per_node_mib and f"{record.memory_per_node_mib} MiB for each node"
    memory = memory or (record.memory_per_cpu_mib and f"{record.memory_per_cpu_mib} MiB for each CPU")
    output.fields(
        {
            "job": record.job_id,
            "name": record.name,
            "user": record.user,
            "account": record.account,
            "state": record.state,
            "reason": "" if record.reason in _ENDED_WITHOUT else record.reason,
            "exit code": record.exit_code,
            "signal": record.signal,
            "partition": record.partition,
            "qos": record.qos,
            "nodes": ",".join(record.nodes) or record.node_count,
            "cpus": record.cpus,
            "memory": memory,
            "gres": record.gres,
            "constraints": record.constraints,
            "time": duration(_elapsed(record)),
            "time limit": duration(record.time_limit_seconds),
            "submitted": moment(record.submitted_at),
            "started": moment(record.started_at),
            "ended": moment(record.ended_at),
            "restarts": record.restarts or "",
            "array tasks": record.array_tasks,
            "output": record.standard_output,
            "errors": record.standard_error,
            "peak memory": record.peak_memory_mib and f"{record.peak_memory_mib} MiB",
            "cost": "" if cost is None else _cost(cost),
            "files": "" if record.staging is None else f"{record.staging.state}, {record.staging.files} files",
        }
    )


def _cost(cost: "Cost") -> str:
    amount = money(cost.total) or "unknown"
    return f"{amount} (not confirmed yet)" if cost.stale else amount


def why(job_id: JobArgument, json: Json = False, url: Url = None, cluster: Cluster = None) -> None:
    """Show why a job waits, where it runs, or how it ended."""
    output = Output(json)
    with connected(url, cluster) as client:
        explanation = job_of(client, job_id).why()
    if json:
        output.document(explanation)
        return
    output.text(explanation.text)
    bought = [f"{each.workers} × {each.shape} ({each.reason})" for each in explanation.bought]
    price = None if explanation.usd_per_hour is None else f"{money(explanation.usd_per_hour)} an hour"
    output.fields(
        {
            "state": explanation.final_state or explanation.state,
            "reason": "" if explanation.reason in _ENDED_WITHOUT else explanation.reason,
            "cause": explanation.cause,
            "expected start": moment(explanation.expected_start),
            "bought for it": ", ".join(bought),
            "cost": price,
            "as of": moment(explanation.as_of),
        }
    )


def logs(
    job_id: JobArgument,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    tail: Annotated[int | None, typer.Option(min=0, max=10_000, help="Only the last N lines.")] = None,
    task: Annotated[int | None, typer.Option(min=0, help="The task of an array.")] = None,
    stderr: Annotated[
        bool, typer.Option("--stderr", help="Standard error, for jobs that write it to a file of its own.")
    ] = False,
    json: Json = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Print a job's output, byte for byte; or follow it as it is written."""
    output = Output(json)
    with connected(url, cluster) as client:
        wanted = job_of(client, job_id if task is None else f"{job_id}_{task}")
        stream: Stream = "stderr" if stderr else "stdout"
        if following:
            print_output(wanted, output, tail=tail, stream=stream)
        elif json:
            output.document({"output": wanted.output(tail=tail, stream=stream)})
        else:
            shown = JobText()
            for piece in wanted.output_bytes(tail=tail, stream=stream):
                shown.write_bytes(piece)
            shown.end()
