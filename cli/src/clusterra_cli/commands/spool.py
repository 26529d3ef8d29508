"""`spool`: the submits of `sbatch --spool` that wait for the network."""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.commands.for_each import for_each
from clusterra_cli.connection import Json, Quiet, Url
from clusterra_cli.output import Column, Output, moment
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra_cli.spool.delivery import Outcome
    from clusterra_cli.spool.folder import Entry, Spool

spool = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="List, send and delete the submits that wait for the network."
)
Ids = Annotated[list[str] | None, typer.Argument(metavar="[SUBMIT]...", help="Ids of submits, such as s12.")]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(spool, name="spool")


@spool.command("list")
def list_spool(json: Json = False, quiet: Quiet = False) -> None:
    """List what waits and what was refused, and the jobs of what was sent."""
    from clusterra_cli.spool.folder import STATES, Spool

    kept = Spool()
    found = [_described(kept, each) for each in kept.entries(*STATES)] if kept.exists else []
    Output(json, quiet).listed(
        found,
        (Column("SUBMIT"), Column("STATE"), Column("SPOOLED"), Column("CLUSTER"), Column("JOB"), Column("WHY")),
        lambda each: tuple(each[name] for name in ("id", "state", "spooled_at", "cluster", "job_id", "why")),
        lambda each: str(each["id"]),
    )


def _described(kept: "Spool", entry: "Entry") -> dict[str, object]:
    from datetime import UTC, datetime

    from clusterra_cli.spool.folder import SpoolError
    from clusterra_cli.spool.record import BadRecord

    row: dict[str, object] = {"id": entry.id, "state": entry.state, "key": entry.key}
    empty = dict.fromkeys(("url", "cluster", "job_id", "why", "spooled_at"))
    try:
        submit = kept.read(entry)
    except (BadRecord, FileNotFoundError, SpoolError) as error:
        return {**row, **empty, "why": "it is gone" if isinstance(error, FileNotFoundError) else str(error)}
    spooled_at = moment(datetime.fromtimestamp(submit.spooled_at, UTC))
    return {
        **row,
        "url": submit.url,
        "cluster": submit.cluster,
        "job_id": submit.job_id,
        "why": submit.why,
        "spooled_at": spooled_at,
    }


@spool.command()
def send(
    submit_ids: Ids = None,
    mine: Annotated[
        bool, typer.Option("--mine", help="Also what was spooled with another sign-in, and was never sent.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Send what waits. Named submits that were refused are made again, as new ones.

    A submit that may have made its job already is refused: name it only when there is no such job.
    """
    from clusterra.http.endpoint import Endpoint
    from clusterra.http.sync_transport import SyncTransport
    from clusterra.target import chosen_target

    from clusterra_cli.spool.delivery import ANSWER_SECONDS, Delivery
    from clusterra_cli.spool.folder import Spool

    kept, output = Spool(), Output(json, quiet)
    if not kept.exists:
        _report(output, [])
        return
    target = chosen_target(url, None, None)
    transport = SyncTransport(Endpoint(target.url, target.credentials, ANSWER_SECONDS))
    try:
        with kept.locked("send"):
            for each in _named(kept, submit_ids or []):
                _make_again(kept, each)
            outcomes = list(Delivery(kept, target, transport).run(mine=mine))
    finally:
        transport.close()
    _report(output, outcomes)


def _report(output: Output, outcomes: "list[Outcome]") -> None:
    output.listed(
        [{"id": each.entry.id, "result": each.kind, "job_id": each.job_id, "why": each.why} for each in outcomes],
        (Column("SUBMIT"), Column("RESULT"), Column("JOB"), Column("WHY")),
        lambda each: tuple(each.values()),
        lambda each: str(each["job_id"] or ""),
    )
    failed = [each for each in outcomes if each.kind in ("refused", "bad")]
    if failed:
        exit_codes.end(exit_codes.REFUSED, f"{len(failed)} of {len(outcomes)} submits were refused")
    if waiting := [each for each in outcomes if each.kind == "waits"]:
        exit_codes.end(exit_codes.FAILED, f"{len(waiting)} of {len(outcomes)} submits wait")


@spool.command()
def delete(
    submit_ids: Annotated[list[str], typer.Argument(metavar="SUBMIT...", help="Ids of submits.")],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Delete submits from the spool. A job that one of them has made goes on."""
    from clusterra_cli.spool.folder import Spool

    kept = Spool()
    if not kept.exists:
        exit_codes.end(exit_codes.NOT_FOUND, "nothing is spooled")
    with kept.locked("send"):
        by_id = {each.id: each for each in _named(kept, submit_ids)}
        for_each(Output(json, quiet), by_id, lambda each: kept.drop(by_id[each]), noun="submit", outcome="deleted")


def _named(kept: "Spool", submit_ids: list[str]) -> "list[Entry]":
    from clusterra_cli.spool.folder import STATES

    known = {each.id: each for each in kept.entries(*STATES)}
    for each in submit_ids:
        if each not in known:
            exit_codes.end(exit_codes.NOT_FOUND, f"there is no submit {each} in the spool")
    return [known[each] for each in dict.fromkeys(submit_ids)]


def _make_again(kept: "Spool", entry: "Entry") -> None:
    """Put a refused submit back, as one that was never sent, and one that was set aside as it is. Raises WrongUsage."""
    import time
    import uuid
    from dataclasses import replace

    from clusterra_cli.spool.record import BadRecord

    if entry.state == "waiting":
        return
    try:
        submit = kept.read(entry)
    except BadRecord as error:
        raise WrongUsage(f"{entry.id}: {error}") from None
    if entry.state == "bad":
        kept.put_back(entry)
        return
    if entry.state == "sent":
        raise WrongUsage(f"{entry.id} was sent: its job is {submit.job_id}")
    new = replace(submit, key=uuid.uuid4().hex, first_sent_at=None, member=None, why=None, spooled_at=time.time())
    kept.add(new)
    kept.drop(entry)
