"""The command `clusterra`: joins its commands, and ends with an exit code that says what went wrong.

This module and those of the commands import nothing slow outside of their functions: `--help` must answer at once.
`test_start_up.py` holds what it imports.
"""

import os
import sys
from typing import Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.commands import (
    advising,
    api_requests,
    bus_credentials,
    contexts,
    event_feed,
    fleet,
    job_changes,
    job_history,
    jobs,
    launching,
    money,
    schedules,
    sessions,
    sharing,
    spool,
    submitting,
    top,
    waiting,
    webhooks,
    workflows,
)
from clusterra_cli.commands.files import copying
from clusterra_cli.commands.people import members, notifications, service_accounts, sign_in, tokens
from clusterra_cli.output import note
from clusterra_cli.quick_start import start_quickly
from clusterra_cli.usage import WrongUsage

command = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Exit codes: 0 done; 1 failed; 2 wrong command line; 4 sign in first; 5 not found; 6 refused;"
    " 130 interrupted. `run`, `wait`, and `submit` with --wait or --follow, end with the job's own.",
)
for module in (
    *(sign_in, contexts, submitting, waiting, jobs, job_history, sharing, job_changes, launching),
    *(workflows, schedules, sessions, copying),
    *(fleet, event_feed, top, money, advising, spool, notifications, tokens, members, service_accounts, webhooks),
    *(bus_credentials, api_requests),
):
    module.add_to(command)


def _print_version(given: bool) -> None:
    if given:
        from importlib.metadata import version

        typer.echo(version("clusterra-cli"))
        raise typer.Exit


@command.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Work with Clusterra: submit jobs, follow them, and learn why they wait and what they cost."""


def main() -> None:
    """Run the command line of this process, and end it with its exit code."""
    start_quickly()
    # A stream that the caller has closed is None.
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        command(prog_name="clusterra")
    except WrongUsage as wrong:
        note(f"error: {wrong}" + (f"\n{wrong.hint}" if wrong.hint else ""))
        sys.exit(exit_codes.USAGE)
    except Exception as error:
        code = exit_codes.report(error)
        if code is None:
            raise
        sys.exit(code)
