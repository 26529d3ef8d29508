"""`clusterra-planner`: simulates the scaler's planner on a trace, and replays decision logs."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from clusterra_scaler.planner.packing.settings import Settings
from rich import progress
from rich.console import Console
from rich.table import Table

from clusterra_planner_tools.replay import Difference
from clusterra_planner_tools.replay import replay as replay_log
from clusterra_planner_tools.simulate import catalogue as catalogues
from clusterra_planner_tools.simulate import result as results
from clusterra_planner_tools.simulate import trace as traces
from clusterra_planner_tools.simulate.catalogue import CatalogueUnreadable
from clusterra_planner_tools.simulate.picture import draw
from clusterra_planner_tools.simulate.progress import jobs_progress
from clusterra_planner_tools.simulate.simulation import (
    NothingFits,
    Options,
    PolicyName,
    RunTimeSource,
    Simulation,
    fitting,
)
from clusterra_planner_tools.simulate.simulation import simulate as run_simulation
from clusterra_planner_tools.simulate.world import Failures

command = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

DEFAULTS = Options()
_NAMED = 5
"""How many bad lines and jobs that fit no shape are named."""


@command.command()
def simulate(
    trace: Annotated[Path, typer.Argument(help="A trace in the Standard Workload Format.")],
    shapes: Annotated[Path, typer.Option(help="YAML with a list `shapes`: name, vcpu, memory_gib, price per hour.")],
    policy: Annotated[PolicyName, typer.Option(help="The policy that decides.")] = "packing",
    known_run_times: Annotated[
        bool, typer.Option("--known-run-times", help="Let the packing know all run times beforehand.")
    ] = False,
    wall_limits: Annotated[
        bool, typer.Option("--wall-limits", help="Let the packing estimate run times by wall limits alone.")
    ] = False,
    batch_seconds: Annotated[
        float, typer.Option("--wait-seconds", min=0, help="The batching window of the packing, in seconds.")
    ] = DEFAULTS.settings.batch_seconds,
    keep: Annotated[
        str,
        typer.Option(metavar="SECONDS|learned", help="How long an idle worker is kept; `learned`: as long as it pays."),
    ] = "0",
    wait_usd_per_hour: Annotated[
        float, typer.Option(min=0, help="The price of an hour that a job waits for a boot, in USD (packing alone).")
    ] = DEFAULTS.wait_usd_per_hour,
    boot_seconds: Annotated[
        float | None, typer.Option(min=0, help="The boot time, instead of the one in SHAPES (or 60).")
    ] = None,
    failures: Annotated[float, typer.Option(min=0, max=0.9, help="The share of workers that never register.")] = 0.0,
    losses: Annotated[
        float, typer.Option(min=0, max=0.9, help="The share of workers that are lost within a day.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="The random seed of failures and losses.")] = 0,
    since: Annotated[
        str | None, typer.Option("--from", help="Only jobs submitted from here on: a fraction of the time or a date.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Only jobs submitted before this: a fraction of the time or a date.")
    ] = None,
    memory: Annotated[traces.MemoryUnit, typer.Option(help="The unit of the trace's memory columns.")] = "auto",
    node_cpus: Annotated[
        int | None,
        typer.Option(
            min=1, help="Spread bigger jobs over nodes of this many CPUs; by default those of the biggest shape."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="Write the jobs' and workers' runs to this file, as JSON.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw demand, fleet, cost and bound to this file, as SVG.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run the planner on a virtual clock against TRACE and print cost / fluid bound, waits and worker starts.

    The exit code is 1 when a file cannot be read, or when the result has violations.
    """
    if known_run_times and wall_limits:
        raise typer.BadParameter("give --known-run-times or --wall-limits, not both")
    if not math.isfinite(wait_usd_per_hour):
        raise typer.BadParameter("--wait-usd-per-hour must be a number of USD")
    source: RunTimeSource = "known" if known_run_times else "wall-limits" if wall_limits else "learned"
    settings = Settings(batch_seconds=batch_seconds)
    options = Options(
        policy,
        source,
        settings,
        keep_alive=_keep_alive(keep),
        wait_usd_per_hour=wait_usd_per_hour,
        failures=Failures(failures, losses, seed),
    )
    try:
        catalogue = catalogues.read(shapes, boot_seconds)
        jobs = traces.read(trace, memory, node_cpus or catalogue.most_cpus).between(since, until)
        fit, misfit = fitting(jobs, catalogue)
        _print_left_out(jobs, [job.id for job in misfit])
        with jobs_progress(policy, len(fit), err) as update:
            done = run_simulation(jobs, catalogue, options, update)
        if output is not None:
            results.write(done.result, output)
        if picture is not None:
            title = f"{trace.name}, {shapes.name}, {policy}" + (f", {source} run times" if policy == "packing" else "")
            picture.write_text(draw(done.result, done.figures, catalogue, title), encoding="utf-8")
    except (traces.TraceUnreadable, traces.BadPeriod, CatalogueUnreadable, NothingFits, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if as_json:
        left_out = {"bad_lines": len(jobs.bad), "jobs_that_fit_no_shape": len(misfit)}
        typer.echo(json.dumps(done.figures.model_dump() | left_out))
    else:
        out.print(_table(done))
    if done.figures.violations:
        raise typer.Exit(1)


@command.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A file of the decision log (CLUSTERRA_DECISION_LOG_DIR).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the decisions in FILE again and print each difference.

    The exit code is 1 when there is a difference, or no decision in FILE.
    """

    def report(found: Difference) -> None:
        if not as_json:
            where = f"{file}:{found.line}: {found.cluster} at {found.decided_at}: {found.path}"
            typer.echo(f"{where}: {json.dumps(found.logged)} was logged, {json.dumps(found.again)} is decided now")

    try:
        hidden = not err.is_terminal
        with progress.open(file, "rb", description="replay", console=err, transient=True, disable=hidden) as lines:
            done = replay_log(lines, report)
    except OSError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    for bad in done.bad[:_NAMED]:
        err.print(f"{file}:{bad.number}: not a decision, left out: {bad.reason}", highlight=False)
    if as_json:
        typer.echo(json.dumps({"file": str(file), "same": done.decisions - done.different, **asdict(done)}))
    else:
        typer.echo(
            f"{file}: {done.decisions - done.different} of {done.decisions} decisions are the same; "
            f"{len(done.bad)} lines are not decisions"
        )
    if done.different or not done.decisions:
        raise typer.Exit(1)


def _keep_alive(given: str) -> float | Literal["learned"]:
    if given == "learned":
        return "learned"
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise typer.BadParameter(f"--keep must be a number of seconds or `learned`, not {given!r}")
    return seconds


def _print_left_out(trace: traces.Trace, misfits: list[int]) -> None:
    if trace.bad:
        err.print(f"{trace.path}: {len(trace.bad)} lines are not jobs that ran and are left out")
        for bad in trace.bad[:_NAMED]:
            err.print(f"  {trace.path}:{bad.number}: {bad.reason}", highlight=False)
    if misfits:
        named = ", ".join(map(str, misfits[:_NAMED])) + (", …" if len(misfits) > _NAMED else "")
        err.print(f"{trace.path}: {len(misfits)} jobs fit no shape and are left out: {named}", highlight=False)


def _table(done: Simulation) -> Table:
    figures = done.figures
    table = Table(show_header=False, box=None)
    rows = {
        "jobs": f"{figures.jobs:,}",
        "worker starts": f"{figures.worker_starts:,}, {figures.starts_per_job:.3f} per job",
        "cost": f"{figures.cost_usd:,.2f} USD",
        "fluid bound": f"{figures.bound_usd:,.2f} USD",
        "cost / bound": f"{figures.ratio:.4f}",
        "wait mean, p50": f"{figures.wait_mean:.1f} s, {figures.wait_p50:g} s",
        "wait p99, max": f"{figures.wait_p99:g} s, {figures.wait_max:g} s",
        "violations": f"{len(figures.violations)}",
    }
    for violation in figures.violations[:_NAMED]:
        rows[f"  {violation.where}"] = violation.what
    for name, value in rows.items():
        table.add_row(name, value)
    return table
