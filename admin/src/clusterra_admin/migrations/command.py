"""`clusterra-admin migrate`: brings stored records into their present form."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterra_admin.terminal import DIFFERS, Json, failing_on, log_to_stderr, print_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterra_runtime.store.store import Store

    from clusterra_admin.migrations.runner import Report

command = typer.Typer(no_args_is_help=True, help="Migrations of stored records.")

PER_SECOND = 100.0


@command.command()
def plan(json: Json = False) -> None:
    """Print each migration and how many records it would change; change nothing.

    The exit code is 2 if a migration is pending, or if a record cannot be read.
    """
    from clusterra_admin.migrations import runner
    from clusterra_admin.migrations.registered import MIGRATIONS

    reports = _run(lambda store: runner.plan(store, MIGRATIONS))
    _print(reports, json)
    if any(report.state == "pending" or report.unreadable for report in reports):
        raise typer.Exit(DIFFERS)


@command.command()
def apply(
    per_second: Annotated[float, typer.Option(min=1, help="The most records to look at in a second.")] = PER_SECOND,
    json: Json = False,
) -> None:
    """Apply the pending migrations while services run. A second run changes nothing; an interrupted one is repeated.

    The exit code is 2 if a record could not be read: it stays as it is, and is named.
    """
    from clusterra_admin.migrations import runner
    from clusterra_admin.migrations.registered import MIGRATIONS

    def progress(report: "Report") -> None:
        typer.echo(f"{report.migration.name}: {report.looked_at} looked at, {report.changed} changed", err=True)

    reports = _run(lambda store: runner.apply(store, MIGRATIONS, per_second=per_second, progress=progress))
    _print(reports, json)
    if any(report.unreadable for report in reports):
        raise typer.Exit(DIFFERS)


def _run(work: "Callable[[Store], Awaitable[list[Report]]]") -> "list[Report]":
    from clusterra_gateway.settings import RecordSettings
    from clusterra_runtime.store.dynamodb import DynamoDBStore
    from clusterra_runtime.store.store import StoreError
    from pydantic import ValidationError

    from clusterra_admin.migrations.runner import Contended

    log_to_stderr()
    with failing_on(StoreError, ValidationError, Contended):

        async def run() -> "list[Report]":
            async with DynamoDBStore(table_prefix=RecordSettings().table_prefix) as store:
                return await work(store)

        return asyncio.run(run())


def _print(reports: "list[Report]", as_json: bool) -> None:
    if as_json:
        print_json({"migrations": [_record(report) for report in reports]})
        return
    for report in reports:
        typer.echo(f"{report.migration.name}: {report.migration.title}")
        counted = (
            "" if report.state == "done before" else f", {report.looked_at} records, {report.changed} in the old form"
        )
        typer.echo(f"  {report.state}{counted}")
        for line in report.unreadable:
            typer.echo(f"  unreadable: {line}")


def _record(report: "Report") -> dict[str, Any]:
    migration = report.migration
    return {
        "table": migration.table.name,
        "number": migration.number,
        "title": migration.title,
        "state": report.state,
        "looked_at": report.looked_at,
        "old_form": report.changed,
        "unreadable": report.unreadable,
    }
