"""`advise`: what the jobs in any Slurm's accounting records would have cost. It asks no gateway."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.connection import Json, Quiet
from clusterra_cli.output import Column, Output, note
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from clusterra_planner_tools.advise.progress import Progress
    from clusterra_planner_tools.advise.results import Advice

_POLICIES = ("packing", "family", "first-fit", "one-worker-per-job")
_LINE_SECONDS = 10.0
"""How often a line of progress is written where there is no terminal."""
_INSTALL = "uv tool install './cli[advise]'"
"""In a checkout: the registry of Python's packages has a program of somebody else by the name `clusterra-cli`."""


def add_to(command: typer.Typer) -> None:
    """Add this command."""
    command.command()(advise)


def advise(
    file: Annotated[
        Path,
        typer.Argument(help="The output of `sacct --json` or `sacct -P`, or a trace (SWF); - for stdin; also gzip."),
    ],
    html: Annotated[Path | None, typer.Option(help="Write a report of one page to this file.")] = None,
    catalogue: Annotated[
        Path | None, typer.Option(help="Shapes with prices, as YAML, in place of those shipped.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help=f"A policy to simulate, of {', '.join(_POLICIES)}; several by repeating it."),
    ] = None,
    fixed: Annotated[
        list[str] | None,
        typer.Option(metavar="NODESxSHAPE", help="Also simulate a fixed fleet, such as 40xgeneral-xlarge."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only jobs submitted at or after this date, or fraction of the input's time span."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only jobs submitted before this date, or fraction.")] = None,
    zone: Annotated[
        str | None,
        typer.Option("--time-zone", help="The zone of the times, such as Europe/Prague; else this machine's."),
    ] = None,
    allocated: Annotated[
        bool, typer.Option("--allocated", help="Count what Slurm gave the jobs, in place of what they asked for.")
    ] = False,
    spread: Annotated[
        bool, typer.Option("--spread", help="Spread jobs of one node over several where no shape is large enough.")
    ] = False,
    any_gpu: Annotated[
        bool, typer.Option("--any-gpu", help="Ignore the GPU model that jobs ask for: any GPU shape will do.")
    ] = False,
    simulated: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=1000,
            help="Simulate about N jobs at most; larger inputs are sampled. 20000 by default.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the cost of the jobs in any Slurm's accounting records. Nothing leaves this machine."""
    wrong = [each for each in policy or () if each not in _POLICIES]
    if wrong:
        raise WrongUsage(f"{wrong[0]!r} is no policy", f"Policies are {', '.join(_POLICIES)}.")
    try:
        from clusterra_planner_tools.advise.advice import COMPARED, SIMULATED, CannotAdvise, Request
        from clusterra_planner_tools.advise.advice import advise as find_out
        from clusterra_planner_tools.advise.pools import PoolOptions
        from clusterra_planner_tools.advise.reading import ReadOptions
        from clusterra_planner_tools.advise.report import page
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "clusterra_planner_tools":
            raise
        exit_codes.end(exit_codes.FAILED, f"the simulator is not installed; install it in a checkout with: {_INSTALL}")

    request = Request(
        file,
        ReadOptions("allocated" if allocated else "requested", _zone(zone), since, until),
        PoolOptions(spread, any_gpu),
        catalogue,
        tuple(policy or COMPARED),  # type: ignore[arg-type]
        tuple(fixed or ()),
        simulated or SIMULATED,
    )
    try:
        with _progress(hidden=quiet) as progress:
            advice = find_out(request, progress)
        if html is not None:
            html.write_text(page(advice), encoding="utf-8")
    except CannotAdvise as error:
        exit_codes.end(exit_codes.FAILED, str(error))
    except OSError as error:
        exit_codes.end(exit_codes.FAILED, f"{html}: {error.strerror}")
    _print(advice, Output(json, quiet))
    if html is not None and not quiet:
        note(f"the report is in {html}")


def _zone(name: str | None) -> "ZoneInfo | None":
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise WrongUsage(f"{name!r} is no time zone", "Give one such as Europe/Prague or UTC.") from None


@contextmanager
def _progress(hidden: bool) -> "Iterator[Progress]":
    """Show on stderr how far it is: as a bar on a terminal, else as a line now and then."""
    import sys
    from time import monotonic

    from clusterra_planner_tools.advise.progress import silent

    if hidden:
        yield silent
        return
    if not sys.stderr.isatty():
        last = monotonic()

        def line(what: str, done: int, total: int | None) -> None:
            nonlocal last
            if monotonic() - last >= _LINE_SECONDS:
                last = monotonic()
                note(f"{what}: {done / total:.0%}" if total else f"{what}: {done:,}")

        yield line
        return
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    with Bars(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, description=what if total else f"{what}: {done:,}")

        yield show


def _print(advice: "Advice", output: Output) -> None:
    from clusterra_planner_tools.advise import wording

    if output.json:
        output.document(advice)
        return
    if output.quiet:
        output.ids([f"{advice.on_demand[0].usd:.2f}"])
        return
    output.text(wording.headline(advice) + "\n")
    output.fields(
        {
            "input": f"{advice.input} ({advice.format})",
            "jobs": f"{advice.jobs:,} of {advice.records:,} records",
            "from": wording.day(advice.begin, advice),
            "to": f"{wording.day(advice.end, advice)} ({advice.days:,.1f} days)",
            "CPU hours": wording.number(advice.cpu_hours),
            "GPU hours": wording.number(advice.gpu_hours) if advice.gpu_hours else None,
        }
    )
    output.text("")
    output.table(
        [Column(""), *(Column(each, right=True) for each in ("COST", "PER 30 DAYS", "WAIT P50", "P95", "P99", "USED"))],
        [[*row] for row in wording.comparison(advice)],
    )
    output.text("")
    output.table(
        [Column("SHAPE"), Column("USD PER HOUR", right=True), Column("OF THE COST", right=True)],
        ([each.shape, f"{each.usd_per_hour:.4f}", f"{each.share:.0%}"] for each in advice.on_demand[0].shapes[:5]),
    )
    if rows := wording.left_out(advice) + wording.assumed(advice):
        output.text("")
        output.table([Column("NOT COUNTED, OR ASSUMED"), Column("", right=True)], rows)
    output.text("\n" + "\n".join(wording.method(advice)))
