"""`submit` and `run`: jobs from a script, a line or a command, with sbatch's options."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, override

import typer
from clusterra.job_environment import DEFAULT_PATH
from typer.core import TyperCommand

from clusterra_cli import job_script
from clusterra_cli.bounded_input import read_bounded
from clusterra_cli.connection import connected
from clusterra_cli.following import follow, interruptible, wait
from clusterra_cli.getopt import Given
from clusterra_cli.job_script import JobScript
from clusterra_cli.output import Output, duration, moment, money, note, warn
from clusterra_cli.sbatch_options import read
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client, Job
    from clusterra.models import Estimate

MAX_SCRIPT_BYTES = 4 * 1024 * 1024
"""The gateway takes less."""
_EVERY_OPTION = (
    "All of sbatch's options can be given, by their long names, their letters, or the beginning of a long name. They go"
    " before {operand}, win over those of the script, and are checked by the gateway. The most used: -J --job-name,"
    " -t --time, -n --ntasks, -c --cpus-per-task, -N --nodes, --mem, -G --gpus, -a --array, -d --dependency,"
    " -o --output, -D --chdir, --export.\n\n"
    "Further options:\n\n\b\n"
    "  --estimate    Show what the job would cost, on which workers, and when it would start; submit nothing.\n"
    "  --dry-run     Print what would be sent, as JSON, and send nothing.\n"
    "  -W, --wait    Wait until the job has ended, and end with its exit code.\n"
    "  -f, --follow  Print the job's output as it is written, and end with its exit code.\n"
    "  --confirmed-usd-per-hour=USD  Confirm the cost of a job that costs more than the cluster lets pass otherwise.\n"
    "  --key=KEY     Idempotency-Key of your own: repeating the command with it submits nothing more.\n"
    "  -M, --cluster=NAME, --url=URL  Where to submit, in place of the context's.\n"
    "  --json, -Q --quiet, --parsable  Answer with JSON, or with the id only.\n\n"
    "The job gets PATH=" + DEFAULT_PATH + " and none of the other variables of here, because those of"
    " another machine mostly mislead. --export=NAME,NAME=VALUE adds variables, --export=ALL takes all of them."
)


class _SbatchCommand(TyperCommand):
    """A command whose words are left as they are: `sbatch_options` reads them."""

    @override
    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.args = args
        return args


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    epilog = _EVERY_OPTION.format(operand="SCRIPT")
    usage = "[OPTIONS] [SCRIPT [ARGUMENTS]]"
    command.command(cls=_SbatchCommand, options_metavar=usage, epilog=epilog)(submit)
    epilog = _EVERY_OPTION.format(operand="COMMAND")
    usage = "[OPTIONS] COMMAND [ARGUMENTS]"
    command.command(cls=_SbatchCommand, options_metavar=usage, epilog=epilog)(run)


def submit(context: typer.Context) -> None:
    """Submit a script with its arguments, as sbatch does. Without SCRIPT, or with `-`, it is read from stdin."""
    options, words = read(context.args)
    _help_if_wanted(context, options)
    _carry_out(_Wanted.of(options), _scripted(options, words))


def run(context: typer.Context) -> None:
    """Run a command as a job, print its output, and end with its exit code. No shell interprets its arguments."""
    options, words = read(context.args)
    _help_if_wanted(context, options)
    if not words:
        raise WrongUsage("there is no command to run", "for example: clusterra run --time=5 hostname")
    wanted = _Wanted.of(options)
    _carry_out(wanted if wanted.wait else wanted.following, job_script.from_command(words, options, _local()))


@dataclass(frozen=True)
class _Wanted:
    """What the options ask of the command, besides the job."""

    output: Output
    cluster: str | None = None
    url: str | None = None
    key: str | None = None
    estimate: bool = False
    dry_run: bool = False
    wait: bool = False
    follow: bool = False

    @classmethod
    def of(cls, options: list[Given]) -> "_Wanted":
        values = {each.name: each.value for each in options}
        return cls(
            output=Output(json="json" in values, quiet="quiet" in values or "parsable" in values),
            cluster=values.get("clusters"),
            url=values.get("url"),
            key=values.get("key"),
            estimate="estimate" in values,
            dry_run="dry-run" in values,
            wait="wait" in values,
            follow="follow" in values,
        )

    @property
    def following(self) -> "_Wanted":
        return _Wanted(**{**vars(self), "follow": True})


def _help_if_wanted(context: typer.Context, options: list[Given]) -> None:
    if any(each.name in ("help", "usage") for each in options):
        typer.echo(context.get_help())
        raise typer.Exit


def _scripted(options: list[Given], words: list[str]) -> JobScript:
    wrapped = next((each.value for each in options if each.name == "wrap"), None)
    if wrapped is not None:
        if words:
            raise WrongUsage("--wrap and a script exclude each other")
        return job_script.from_wrapped(wrapped, options, _local())
    name = words[0] if words else "-"
    if name == "-" and sys.stdin.isatty():
        raise WrongUsage("there is no script", "for example: clusterra submit job.sh")
    try:
        text = read_bounded(name, MAX_SCRIPT_BYTES).decode()
    except UnicodeDecodeError:
        raise WrongUsage(f"{name} is not a script: it is not UTF-8") from None
    if name == "-" and not text.strip():
        raise WrongUsage("no script", "name a file, or send one to stdin")
    if not text.startswith("#!"):
        shown = "stdin" if name == "-" else name
        raise WrongUsage(f"{shown} names no interpreter", "start it with a line such as #!/bin/bash")
    return job_script.from_script(text, [name, *words[1:]], options, _local())


def _local() -> dict[str, str]:
    """The variables of this process that are text."""
    return {name: value for name, value in os.environ.items() if _is_text(name + value)}


def _is_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _carry_out(wanted: _Wanted, made: JobScript) -> None:
    output = wanted.output
    for each in made.warnings:
        warn(each)
    if wanted.dry_run:
        output.document({"script": made.script, "job": made.job})
        return
    with connected(wanted.url, wanted.cluster) as client:
        if wanted.estimate:
            with _errors_of_caller(made):
                estimate = client.estimate(made.script, made.job)
            _print_estimate(output, estimate, made)
            return
        _submit(client, wanted, made)


@contextmanager
def _errors_of_caller(made: JobScript) -> Iterator[None]:
    """Errors about a line of the script that was sent name the option of the command line, or the caller's line."""
    from clusterra.errors import ApiError

    try:
        yield
    except ApiError as error:
        problem = error.problem
        detail = made.placed(problem.detail)
        fields = tuple(replace(each, detail=made.placed(each.detail)) for each in problem.errors)
        # The hint speaks of a line of the script that the caller has not written.
        hint = problem.hint if detail == problem.detail else None
        raise type(error)(replace(problem, detail=detail, hint=hint, errors=fields)) from None


def _submit(client: "Client", wanted: _Wanted, made: JobScript) -> None:
    output = wanted.output
    with _errors_of_caller(made):
        job = client.submit(made.script, made.job, key=wanted.key)
    for each in job.warnings:
        warn(made.placed(each))
    if not (wanted.wait or wanted.follow):
        _print_submitted(output, job)
        return
    with interruptible(job.id):
        if output.json:
            output.json_line(_submitted(job))
        else:
            note(f"Submitted batch job {job.id}")
        code = follow(job, output) if wanted.follow else wait(job, output)
    raise typer.Exit(code)


def _print_submitted(output: Output, job: "Job") -> None:
    if output.json:
        output.document(_submitted(job))
    elif output.quiet:
        output.text(job.id)
    else:
        output.text(f"Submitted batch job {job.id}")


def _submitted(job: "Job") -> dict[str, object]:
    return {"job_id": job.id, "warnings": list(job.warnings)}


def _print_estimate(output: Output, estimate: "Estimate", made: JobScript) -> None:
    for each in estimate.warnings:
        warn(made.placed(each))
    if output.json:
        output.document(estimate)
        return
    cost = estimate.cost
    workers = (
        f"{each.count or 1} × {each.shape or 'a node of another kind'} ({each.kind})" for each in estimate.workers
    )
    output.text(estimate.text)
    output.fields(
        {
            "workers": ", ".join(workers),
            "tasks": estimate.tasks,
            "starts": moment(estimate.expected_start),
            "last task starts": moment(estimate.expected_last_start),
            "time limit": duration(estimate.time_limit_seconds),
            "cost": "unknown" if cost is None else f"{money(cost.per_hour)} an hour",
            "at most": "" if cost is None else money(cost.total_at_most),
        }
    )
