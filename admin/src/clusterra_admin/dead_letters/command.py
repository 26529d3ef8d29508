"""`clusterra-admin dead-letters`: messages that nobody could handle."""

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_admin.terminal import DIFFERS, Json, fail, failing_on, log_to_stderr, print_json, visible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from clusterra_runtime.nats.client import Client

    from clusterra_admin.dead_letters.replay import Plan

MOST = 1000
"""The most dead letters that one command lists or replays."""
_SHOWN = 50
_PATTERN = re.compile(r"[^\s.]+(\.[^\s.]+)*")
_LONGEST_PATTERN = 255

Pattern = Annotated[
    str | None,
    typer.Option(
        "--subject",
        metavar="PATTERN",
        help="Messages on these subjects, as NATS writes patterns: 'event.acme.main.>', 'edge-event.*.main.>'.",
    ),
]

command = typer.Typer(no_args_is_help=True, help="Messages that nobody could handle.")


@command.command("list")
def list_letters(
    subject: Pattern = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="The most dead letters to list.")] = _SHOWN,
    json: Json = False,
) -> None:
    """Print dead letters, the newest first, and how many messages NATS itself gave up in the last 7 days."""
    from clusterra_admin.dead_letters import advisories, letter, printing

    pattern = _checked(subject)

    async def work(client: "Client") -> None:
        found = await letter.newest(client, pattern, limit)
        advised = await advisories.advised(client)
        if json:
            print_json(printing.list_document(found, advised), foreign=True)
        else:
            for line in printing.list_lines(found, advised):
                typer.echo(line)

    _run(work)


@command.command()
def show(
    sequence: Annotated[int, typer.Argument(min=1, help="The dead letter's number, as `list` prints it.")],
    json: Json = False,
) -> None:
    """Print one dead letter: what is known of it, its headers, and its body, of which at most 1 MiB.

    The body may hold personal data.
    """
    from clusterra_admin.dead_letters import letter, printing

    async def work(client: "Client") -> None:
        found = await letter.read(client, sequence)
        if found is None:
            fail(f"there is no dead letter {sequence}", "`clusterra-admin dead-letters list` prints their numbers")
        if json:
            print_json(printing.letter_document(found), foreign=True)
        else:
            for line in printing.letter_lines(found):
                typer.echo(line)

    _run(work)


@command.command()
def replay(
    sequences: Annotated[
        list[int] | None, typer.Argument(min=1, metavar="SEQUENCE", help="Numbers, as `list` prints them.")
    ] = None,
    subject: Pattern = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be replayed; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Publish dead letters again on their own subjects, and remove them. First correct what could not handle them.

    Only messages that a durable consumer reads are replayed: events, events of edges, and the last queue snapshot of
    a cluster. If the command is interrupted, repeat it. Exit codes: 0 all are replayed, 1 failed, 2 some are not, each
    of which is named with the reason.
    """
    numbers = sequences or []
    if bool(numbers) == (subject is not None):
        fail("give either numbers of dead letters or --subject", "`clusterra-admin dead-letters list` prints both")
    if len(numbers) > MOST:
        fail(f"{len(numbers)} numbers are more than {MOST} at once")
    _run(lambda client: _replay(client, numbers, subject, _Manner(dry_run, yes, json)))


@dataclass(frozen=True)
class _Manner:
    """How a replay is run: only planned, without a question, printed as JSON."""

    dry_run: bool
    yes: bool
    json: bool


async def _replay(client: "Client", numbers: list[int], subject: str | None, manner: _Manner) -> None:
    from clusterra_admin.dead_letters import letter, printing
    from clusterra_admin.dead_letters import replay as replaying

    more = False
    if subject is not None:
        found = await letter.newest(client, _checked(subject), MOST)
        numbers, more = [row.sequence for row in found.rows], found.more
    plan = await replaying.planned(client, numbers)
    told = [*plan.outcomes, *(plan.foreseen if manner.dry_run else [])]
    if not manner.json:
        _print_lines(printing.outcome_line(each) for each in told)
    if plan.messages and not manner.dry_run:
        _ask(plan, manner)
    try:
        if not manner.dry_run:
            async for outcome in replaying.replay(client, plan):
                told.append(outcome)
                if not manner.json:
                    typer.echo(printing.outcome_line(outcome))
    finally:
        # An interrupted replay, too, prints what was replayed until then.
        if manner.json:
            print_json(printing.replay_document(told, more=more), foreign=True)
        else:
            typer.echo(printing.summary(told, more=more))
    if any(each.what in {"refused", "gone"} for each in told):
        raise typer.Exit(DIFFERS)


def _ask(plan: "Plan", manner: _Manner) -> None:
    if manner.yes:
        return
    count = len(plan.foreseen)
    if not typer.confirm(f"replay {count} dead letters?", err=True):
        fail("nothing was replayed", "--dry-run prints what would be replayed, --yes does not ask")


def _print_lines(lines: "Iterable[str]") -> None:
    for line in lines:
        typer.echo(line)


def _checked(pattern: str | None) -> str:
    if pattern is None:
        return ">"
    if len(pattern) > _LONGEST_PATTERN or not pattern.isprintable() or not _PATTERN.fullmatch(pattern):
        fail(f"{visible(pattern)[:_LONGEST_PATTERN]!r} is not a pattern of subjects", "such as 'event.acme.main.>'")
    return pattern


def _run(work: "Callable[[Client], Awaitable[None]]") -> None:
    from clusterra_runtime.nats.bus import BusUnavailable
    from clusterra_runtime.settings import ServiceSettings
    from pydantic import ValidationError

    from clusterra_admin.nats_connection import NatsUnreachable, connected

    log_to_stderr()

    async def main(settings: ServiceSettings) -> None:
        async with connected(settings) as client:
            await work(client)

    with failing_on(ValidationError, NatsUnreachable, BusUnavailable):
        asyncio.run(main(ServiceSettings()))
