"""Runs Clusterra and everything it needs on this machine."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import structlog
import typer
from clusterra_contracts.identity import now
from rich.console import Console
from rich.table import Column, Table

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.stack.down import take_down
from clusterra_lab.stack.home import Home, Summary
from clusterra_lab.stack.status import LabStatus, lab_status
from clusterra_lab.stack.up import stay_up, until_signalled

if TYPE_CHECKING:
    from clusterra_lab.central.stack import KubernetesStack
    from clusterra_lab.stack.stack import LabOptions, Stack

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)
out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

Substrate = Annotated[
    Literal["process", "kubernetes"],
    typer.Option(help="How workers run: as processes, or as pods on a real Kubernetes node."),
]
Central = Annotated[
    Literal["process", "kubernetes"],
    typer.Option(help="How the services run: as processes, or as the Deployments of k8s/central on that node."),
]
Dir = Annotated[
    Path, typer.Option("--dir", envvar="CLUSTERRA_LAB_DIR", help="The lab's folder, with its state and logs.")
]
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
"""Displayed state by (recorded process is running, health port reports ready)."""


@app.callback()
def _quiet() -> None:
    # The log of the lab's own bus connection is of no use on a terminal.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


@app.command()
def up(
    directory: Dir = DIR,
    substrate: Substrate = "process",
    central: Central = "process",
    console: Annotated[bool, typer.Option("--console", help="Also run the console's development server.")] = False,
) -> None:
    """Start everything, print its addresses, and run until Ctrl-C or `lab down`."""
    # Imported here: these modules load every client, and `lab status` must start fast.
    from clusterra_runtime.logs import configure as configure_logs

    from clusterra_lab.stack.console import development_server
    from clusterra_lab.stack.stack import LabOptions

    # Only errors of this process; each service has its own log.
    configure_logs("lab", "ERROR")

    @asynccontextmanager
    async def shown() -> "AsyncIterator[KubernetesStack | Stack]":
        async with AsyncExitStack() as opened:
            with console_progress(err) as progress:
                server = development_server(directory) if console else None
                options = LabOptions(substrate=substrate, environment=server.environment() if server else {})
                running = await opened.enter_async_context(_lab(directory, options, central, progress))
                await running.save_login()
                if server is not None:
                    await opened.enter_async_context(server.running(running.gateway_url))
                    out.print(f"{'console':<13}{server.origin}", highlight=False)
            try:
                yield running
            finally:
                _print_progress("stopping the lab")

    _run(stay_up(shown(), _print_progress, lambda running: _print_summary(running.summary)))
    _print_progress("the lab has stopped")


@app.command()
def demo(
    directory: Dir = DIR / "demo",
    substrate: Substrate = "process",
    central: Central = "process",
    report: Annotated[Path, typer.Option(help="File for the result, as JSON.")] = Path("demo.json"),
    picture: Annotated[Path | None, typer.Option(help="File for the last screen, as SVG.")] = None,
    gateway: Annotated[
        str | None, typer.Option(help="Use the installation with this gateway and CLUSTERRA_NATS_*; start no lab.")
    ] = None,
    passwords: Annotated[
        Path, typer.Option(help="With --gateway: folder with the passwords of ada and grace, a file for each.")
    ] = Path("people"),
    within: Annotated[float, typer.Option(min=1, help="Seconds that the jobs may take together.")] = 120.0,
) -> None:
    """Submit real jobs of two users over HTTP, start workers for them, and wait until the fleet is empty again.

    Exits with 0 only when every job ran as its user and printed the expected lines, and no worker is left.
    """
    from clusterra_lab.demo.demo import run_demo
    from clusterra_lab.demo.site import DemoSite, running_installation
    from clusterra_lab.demo.view import summary, view

    began = now()

    def site(progress: Progress) -> AbstractAsyncContextManager[DemoSite]:
        if gateway is not None:
            return running_installation(gateway, passwords)
        # Imported here: a running installation needs none of the lab's parts.
        from clusterra_lab.stack.stack import LabOptions

        return _lab(directory, LabOptions(substrate=substrate, fresh=True), central, progress)

    async def show() -> bool:
        async with AsyncExitStack() as opened:
            with console_progress(err) as progress:
                running = await opened.enter_async_context(site(progress))
            with view(out) as shown:
                result = await run_demo(running, shown.show, began=began, jobs_seconds=within)
            result.write(report)
            out.print(summary(result))
            if picture is not None:
                shown.save(picture, result)
            if gateway is None:
                _print_progress("stopping the lab")
            return result.ok

    if not _run(until_signalled(show())):
        raise typer.Exit(1)


@app.command()
def prepare(
    kubernetes: Annotated[bool, typer.Option(help="Also build the Kubernetes programs (about 16 minutes).")] = False,
    software: Annotated[bool, typer.Option(help="Also build the workers of `make test-software` (3 minutes).")] = False,
) -> None:
    """Download and build the lab's dependencies into the cache, unless they are already there."""
    from clusterra_lab.kube.definitions import PROJECTS, DefinitionsNotTaken, ensure_definitions
    from clusterra_lab.kube.programs.binaries import BinariesNotBuilt, ensure_binaries, ensure_node_binaries
    from clusterra_lab.stack.stack import prepared

    async def build() -> None:
        with console_progress(err) as progress:
            await prepared(progress, software=software)
            if kubernetes:
                try:
                    await ensure_binaries(progress)
                    await ensure_node_binaries(progress, network=True)
                except BinariesNotBuilt as error:
                    text = f"Kubernetes is not available, so its tests will be skipped: {error}"
                    err.print(text, markup=False, highlight=False)
                for project in PROJECTS:
                    try:
                        await ensure_definitions(project, progress)
                    except DefinitionsNotTaken as error:
                        text = f"The tests with {project}'s CustomResourceDefinitions will be skipped: {error}"
                        err.print(text, markup=False, highlight=False)

    _run(build())


@app.command()
def down(directory: Dir = DIR) -> None:
    """Stop the lab, even after a crash, and check that nothing of it is left."""
    found = _run(take_down(directory))
    for what in found:
        out.print(f"ended: {what}", highlight=False)
    out.print(f"nothing of the lab in {directory} is left" if found else f"no lab was running in {directory}")


@app.command()
def status(directory: Dir = DIR, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the lab's processes; exit with 1 unless all of them are running and ready."""
    found = _run(lab_status(directory))
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        _print_status(found)
    if not found.healthy:
        raise typer.Exit(1)


@app.command()
def logs(
    service: Annotated[str, typer.Argument(help="A name from `lab status`.")],
    directory: Dir = DIR,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")] = False,
) -> None:
    """Print the log of a service or of another process of the lab."""
    known = {entry.name: entry.log for entry in Home(directory).ledger.entries()}
    if service not in known:
        err.print(f"no process {service!r} in this lab; known: {', '.join(known) or 'none'}", highlight=False)
        raise typer.Exit(1)
    with known[service].open("rb") as log, _until_interrupted():
        while True:
            while part := log.read(2**16):
                sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
            if not follow:
                return
            time.sleep(_FOLLOW_SECONDS)


def _lab(
    directory: Path, options: "LabOptions", central: str, progress: Progress
) -> "AbstractAsyncContextManager[KubernetesStack | Stack]":
    """The lab with the services where `central` says."""
    from clusterra_lab.central.stack import kubernetes_stack
    from clusterra_lab.stack.stack import stack

    if central == "process":
        return stack(directory, options, progress=progress)
    if options.substrate != "kubernetes":
        raise typer.BadParameter("with --central kubernetes the workers are pods too: add --substrate kubernetes")
    return kubernetes_stack(directory, options, progress=progress)


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
        # The reader has closed the pipe. Without this, Python would report it again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_progress(line: str) -> None:
    err.print(line, highlight=False)


def _print_summary(summary: Summary) -> None:
    for what, where in summary.addresses.items():
        out.print(f"{what:<13}{where}", highlight=False)
    gateway = summary.addresses["gateway"]
    out.print(f"{'log in at':<13}{gateway}/v1/auth/login", highlight=False)
    for email, password_file in summary.logins.items():
        # The provider's form takes the user name, which the file is named after.
        out.print(f"{'log in as':<13}{password_file.name}  {password_file.read_text()}  ({email})", highlight=False)
    if summary.cookies is not None:
        out.print(f"{'logged in':<13}curl --cookie {summary.cookies} {gateway}/v1/users/me", highlight=False)
    out.print("The lab is up. Press Ctrl-C to stop it.")


def _print_status(status: LabStatus) -> None:
    state = f"up (pid {status.pid})" if status.up else "starting" if status.pid else "not up; `make up` starts it"
    out.print(f"{status.directory}: {state}")
    for what, where in status.addresses.items():
        out.print(f"  {what}: {where}", highlight=False)
    if not status.processes:
        return
    table = Table("name", "pid", "state", "MiB", "for", Column("log", overflow="fold"), box=None, pad_edge=False)
    for process in status.processes:
        state = _STATES[process.running, process.ready]
        age = "" if process.up_seconds is None else str(timedelta(seconds=round(process.up_seconds)))
        resident = "" if process.resident_mib is None else f"{process.resident_mib:.0f}"
        table.add_row(process.name, str(process.pid), state, resident, age, str(process.log))
    out.print(table)
