"""`costs`, `quota` and `budgets`: what jobs cost, and what they may cost."""

from datetime import date, timedelta
from typing import Annotated

import typer

from clusterra_cli.connection import Cluster, Json, Url, connected
from clusterra_cli.output import Column, Output, money, note
from clusterra_cli.usage import WrongUsage


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    for each in (costs, quota, budgets):
        command.command()(each)


def costs(
    by: Annotated[
        str,
        typer.Option(help="One row for each: day, user, account, template, job, worker or shape; several with commas."),
    ] = "user",
    since: Annotated[str | None, typer.Option("--from", help="The first day, such as 2026-11-01.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="The last day.")] = None,
    json: Json = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Show what jobs and their workers cost, by default in this month."""
    output, last = Output(json), _day(until)
    with connected(url, cluster) as client:
        report = client.costs(by, first=_day(since), end=None if last is None else last + timedelta(days=1))
    if json:
        output.document(report)
        return
    names = [each for each in by.split(",") if each]
    columns = [*(Column(each.upper()) for each in names), Column("FOR"), Column("HOURS", right=True)]
    output.table(
        [*columns, Column("COST", right=True)],
        (
            [
                *(getattr(row, "job_id" if each == "job" else each, None) for each in names),
                *(row.purpose, f"{row.hours:.2f}", money(row.cost) or "unknown"),
            ]
            for row in report.rows
        ),
    )
    output.text(f"{money(report.bill)} in all from {report.first} to {report.last}")
    if report.stale:
        note("a part is not confirmed by the edge yet")


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise WrongUsage(f"{text!r} is no day: give one such as 2026-11-01") from None


def quota(json: Json = False, url: Url = None) -> None:
    """Show what your jobs may cost in this month, and what is left of it."""
    output = Output(json)
    with connected(url) as client:
        found = client.quotas()
    if json:
        output.document(found)
    elif not found:
        note("no quota is set")
    else:
        columns = (Column("SCOPE"), Column("NAME"), Column("MODE"), Column("MONTH"))
        output.table(
            [*columns, *(Column(each, right=True) for each in ("LIMIT", "USED", "LEFT"))],
            (
                (each.scope, each.name, each.mode, each.month, money(each.limit), money(each.used), money(each.left))
                for each in found
            ),
        )


def budgets(json: Json = False, url: Url = None) -> None:
    """List budgets: the actual cost of this month, its forecast, and the thresholds that were crossed."""
    output = Output(json)
    with connected(url) as client:
        found = client.budgets()
    if json:
        output.document(found)
    elif not found:
        note("no budget is set")
    else:
        columns = (Column("SCOPE"), Column("NAME"), Column("MONTH"))
        output.table(
            [*columns, *(Column(each, right=True) for each in ("LIMIT", "ACTUAL", "FORECAST")), Column("CROSSED")],
            (
                (
                    *(each.scope, each.name, each.month),
                    *(money(each.limit), money(each.actual) or "unknown", money(each.forecast) or "unknown"),
                    ", ".join(f"{at.percent} % {at.measure}" for at in each.thresholds if at.crossed_at),
                )
                for each in found
            ),
        )
