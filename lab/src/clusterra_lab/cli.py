"""`lab`: Clusterra and all it needs, on this machine."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import structlog
import typer
from clusterra_contracts.identity import now
from rich.console import Console
from rich.table import Column, Table

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.progress import console_progress
from clusterra_lab.stack.down import take_down
from clusterra_lab.stack.home import Home, Summary
from clusterra_lab.stack.status import LabStatus, lab_status
from clusterra_lab.stack.up import stay_up, until_signalled

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)
out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

Substrate = Annotated[
    Literal["process", "kubernetes"],
    typer.Option(help="What workers are: processes, or pods of a real Kubernetes node."),
]
Dir = Annotated[Path, typer.Option("--dir", envvar="CLUSTERRA_LAB_DIR", help="The lab's folder: state and logs.")]
DIR = Path(".lab")
_FOLLOW_SECONDS = 0.2
_STATES = {
    (True, None): "running",
    (True, True): "ready",
    (True, False): "[yellow]not ready[/]",
    (False, None): "[red]ended[/]",
    (False, False): "[red]ended[/]",
    (False, True): "[yellow]starting again[/]",
}
"""By whether the recorded process runs and whether its health port says ready."""


@app.callback()
def _quiet() -> None:
    # The lab's own connection to the bus has little to say on a terminal.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


@app.command()
def up(directory: Dir = DIR, substrate: Substrate = "process") -> None:
    """Start everything, print where it is, and stay until Ctrl-C or `lab down`."""
    # Here, for it takes in the clients of everything, and `lab status` should answer at once.
    from clusterra_runtime.logs import configure as configure_logs

    from clusterra_lab.stack.stack import Stack, stack

    # Of this process only what is wrong; the services have logs of their own.
    configure_logs("lab", "ERROR")

    @asynccontextmanager
    async def shown() -> AsyncIterator[Stack]:
        async with AsyncExitStack() as opened:
            with console_progress(err) as progress:
                running = await opened.enter_async_context(stack(directory, substrate=substrate, progress=progress))
                await running.ready_made_login()
            try:
                yield running
            finally:
                _tell("ending the lab")

    _run(stay_up(shown(), _tell, lambda running: _say_ready(running.summary)))
    _tell("all of the lab has ended")


@app.command()
def demo(
    directory: Dir = DIR / "demo",
    substrate: Substrate = "process",
    report: Annotated[Path, typer.Option(help="Where the result is written, as JSON.")] = Path("demo.json"),
    picture: Annotated[Path | None, typer.Option(help="Where the last screen is written, as SVG.")] = None,
) -> None:
    """Run real jobs of two users from HTTP to workers that did not exist, and wait for the workers to go.

    Exit code 0 only when every job ran as its user, printed what it should, and no worker is left.
    """
    from clusterra_lab.demo.demo import run_demo
    from clusterra_lab.demo.view import summary, view
    from clusterra_lab.stack.stack import stack

    began = now()

    async def show() -> bool:
        async with AsyncExitStack() as opened:
            with console_progress(err) as progress:
                lab = await opened.enter_async_context(
                    stack(directory, substrate=substrate, fresh=True, progress=progress)
                )
            with view(out) as shown:
                result = await run_demo(lab, shown.show, began=began)
            result.write(report)
            out.print(summary(result))
            if picture is not None:
                shown.save(picture, result)
            _tell("ending the lab")
            return result.ok

    if not _run(until_signalled(show())):
        raise typer.Exit(1)


@app.command()
def prepare(
    kubernetes: Annotated[bool, typer.Option(help="Also build the programs of Kubernetes (some 14 minutes).")] = False,
) -> None:
    """Download and build what the lab needs, once, into the cache."""
    from clusterra_lab.kube.binaries import BinariesNotBuilt, ensure_binaries, ensure_node_binaries
    from clusterra_lab.stack.stack import prepared

    async def build() -> None:
        with console_progress(err) as progress:
            await prepared(progress)
            if kubernetes:
                try:
                    await ensure_binaries(progress)
                    await ensure_node_binaries(progress)
                except BinariesNotBuilt as error:
                    err.print(f"no Kubernetes, its tests will be skipped: {error}", markup=False, highlight=False)

    _run(build())


@app.command()
def down(directory: Dir = DIR) -> None:
    """End the lab, whatever became of it, and check that nothing of it is left."""
    found = _run(take_down(directory))
    for what in found:
        out.print(f"ended: {what}", highlight=False)
    out.print(f"nothing of the lab in {directory} is left" if found else f"no lab was up in {directory}")


@app.command()
def status(
    directory: Dir = DIR, as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False
) -> None:
    """Say what of the lab runs; exit code 1 when it is not all well."""
    seen = _run(lab_status(directory))
    if as_json:
        typer.echo(seen.model_dump_json(indent=2))
    else:
        _show(seen)
    if not seen.well:
        raise typer.Exit(1)


@app.command()
def logs(
    service: Annotated[str, typer.Argument(help="A name that `lab status` shows.")],
    directory: Dir = DIR,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Print the log of a service or of another process of the lab."""
    known = {entry.name: entry.log for entry in Home(directory).ledger.entries()}
    if service not in known:
        err.print(f"no {service!r} here; there are: {', '.join(known) or 'none'}", highlight=False)
        raise typer.Exit(1)
    with known[service].open("rb") as log, _until_interrupted():
        while True:
            while part := log.read(2**16):
                sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
            if not follow:
                return
            time.sleep(_FOLLOW_SECONDS)


def _run[T](work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except (LabProblem, TimeoutError) as problem:
        err.print(f"[red]{type(problem).__name__}[/]:", end=" ")
        err.print(str(problem), markup=False, highlight=False)
        raise typer.Exit(1) from None


@contextmanager
def _until_interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # Whoever read us has gone; Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(line: str) -> None:
    err.print(line, highlight=False)


def _say_ready(summary: Summary) -> None:
    for what, where in summary.addresses.items():
        out.print(f"{what:<13}{where}", highlight=False)
    for email, password_file in summary.logins.items():
        out.print(f"{'log in as':<13}{email}  {password_file.read_text()}", highlight=False)
    if summary.cookies is not None:
        me = f"{summary.addresses['gateway']}/v1/users/me"
        out.print(f"{'logged in':<13}curl --cookie {summary.cookies} {me}", highlight=False)
    out.print("The lab is up. Ctrl-C ends it.")


def _show(seen: LabStatus) -> None:
    out.print(f"{seen.directory}: {f'up (pid {seen.pid})' if seen.up else 'starting' if seen.pid else 'not up'}")
    for what, where in seen.addresses.items():
        out.print(f"  {what}: {where}", highlight=False)
    if not seen.processes:
        return
    table = Table("name", "pid", "state", "MiB", "for", Column("log", overflow="fold"), box=None, pad_edge=False)
    for process in seen.processes:
        state = _STATES[process.running, process.ready]
        age = "" if process.up_seconds is None else str(timedelta(seconds=round(process.up_seconds)))
        resident = "" if process.resident_mib is None else f"{process.resident_mib:.0f}"
        table.add_row(process.name, str(process.pid), state, resident, age, str(process.log))
    out.print(table)
