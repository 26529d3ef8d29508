"""`clusterra-admin provision`: tenants, people and clusters."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clusterra_admin.terminal import DIFFERS, Json, Timeout, fail, failing_on, log_to_stderr, print_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from clusterra_contracts.identity import ClusterRef

    from clusterra_admin.provision.changes import Change
    from clusterra_admin.provision.record import Record, Row

command = typer.Typer(no_args_is_help=True, help="Tenants, people and clusters.")

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A YAML or JSON file with a list `tenants`; `schema` prints its schema.")
]
Ref = Annotated[str, typer.Argument(metavar="TENANT/CLUSTER", help="The cluster.")]

TIMEOUT_SECONDS = 120.0
UNRECORDED = "removing"
"""The state of a cluster whose removal was interrupted."""
_WIDTH = 250
"""Columns of characters of the list of clusters where it is not printed to a terminal."""
_COLOURS = {"+": "green", "-": "red", "~": "yellow"}


@command.command()
def plan(file: File, timeout: Timeout = TIMEOUT_SECONDS, json: Json = False) -> None:
    """Print what `apply` would change, and change nothing. The exit code is 2 if anything would change."""
    changes = _run(lambda record: record.plan(file), timeout)
    _print_changes(changes, json, "nothing would change")
    if changes:
        raise typer.Exit(DIFFERS)


@command.command()
def apply(file: File, timeout: Timeout = TIMEOUT_SECONDS, json: Json = False) -> None:
    """Write the tenants, people and clusters of FILE; print what changed. Applying it again changes nothing.

    What the file does not name stays, except that a cluster without an `agent_key` loses its key.
    """
    _print_changes(_run(lambda record: record.apply(file), timeout), json, "nothing to change")


@command.command("list")
def list_clusters(timeout: Timeout = TIMEOUT_SECONDS, json: Json = False) -> None:
    """Print every cluster: its state, its edge's last heartbeat, its workers and jobs.

    `removing` is a cluster whose removal was interrupted: `remove` completes it.
    """
    rows = _run(lambda record: record.rows(), timeout)
    if json:
        print_json({"clusters": [_record(row) for row in rows]})
        return
    from rich.console import Console
    from rich.table import Table

    from clusterra_admin.provision.changes import masked

    table = Table(box=None, pad_edge=False)
    for name in ("cluster", "state", "version", "heartbeat", "workers", "waiting", "running", "slurmrestd"):
        right = name in {"version", "workers", "waiting", "running"}
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        counts = ("-" if count is None else str(count) for count in (row.workers, row.pending, row.running))
        binding = row.binding
        table.add_row(
            str(row.ref),
            binding.lifecycle if row.recorded else UNRECORDED,
            str(binding.version),
            _heartbeat(row),
            *counts,
            masked(binding.slurmrestd_url),
        )
    # Without a terminal, no column is cut.
    width = None if sys.stdout.isatty() else _WIDTH
    Console(soft_wrap=True, width=width).print(table if rows else "no clusters")


@command.command()
def pause(cluster: Ref, timeout: Timeout = TIMEOUT_SECONDS) -> None:
    """Buy no more workers for a cluster. Its jobs are still accepted and wait; running jobs and their workers stay."""
    _set_state(cluster, "paused", timeout)


@command.command()
def resume(cluster: Ref, timeout: Timeout = TIMEOUT_SECONDS) -> None:
    """Buy workers for a paused cluster again."""
    _set_state(cluster, "active", timeout)


@command.command()
def remove(
    cluster: Ref,
    force: Annotated[bool, typer.Option("--force", help="Remove it although workers or jobs are there.")] = False,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> None:
    """Remove a cluster. It refuses while workers or jobs are there. Run it again after an interruption."""
    ref = _ref(cluster)
    row = _run(lambda record: record.remove(ref, force=force), timeout)
    typer.echo(f"cluster {ref}: removed")
    typer.echo("what remains:")
    for remaining in _remaining(ref, row):
        typer.echo(f"  - {remaining}")


@command.command()
def schema() -> None:
    """Print the JSON Schema of the provision file."""
    from clusterra_admin.provision.file import schema as of_file

    print_json(of_file())


def _run[T](work: "Callable[[Record], Awaitable[T]]", timeout: float) -> T:
    from clusterra_gateway.http.requests.errors import RequestError
    from clusterra_runtime.catalogue import CatalogueInvalid
    from clusterra_runtime.nats.bus import BusUnavailable
    from clusterra_runtime.store.store import StoreError
    from pydantic import ValidationError

    from clusterra_admin.nats_connection import NatsUnreachable
    from clusterra_admin.provision.record import opened

    async def run() -> T:
        async with asyncio.timeout(timeout), opened() as record:
            return await work(record)

    log_to_stderr()
    with failing_on(RequestError, CatalogueInvalid, StoreError, BusUnavailable, NatsUnreachable, ValidationError):
        try:
            return asyncio.run(run())
        except TimeoutError:
            fail(
                f"not done within {timeout:g} s",
                "check CLUSTERRA_NATS_URL and the credentials, and that `clusterra-admin topology apply` was run",
            )


def _set_state(cluster: str, state: Literal["active", "paused"], timeout: float) -> None:
    ref = _ref(cluster)
    changed = _run(lambda record: record.set_state(ref, state), timeout)
    typer.echo(f"cluster {ref}: {'now' if changed else 'already'} {state}")


def _ref(text: str) -> "ClusterRef":
    from clusterra_contracts.identity import ClusterRef
    from pydantic import ValidationError

    tenant, _, cluster = text.partition("/")
    try:
        return ClusterRef(tenant=tenant, cluster=cluster)
    except ValidationError:
        fail(f"{text!r} is not TENANT/CLUSTER", "such as acme/main")


def _print_changes(changes: "Iterable[Change]", as_json: bool, nothing: str) -> None:
    changes = list(changes)
    if as_json:
        print_json({"changes": [_change(each) for each in changes]})
        return
    for each in changes:
        for line in each.lines():
            # Colours only reach a terminal.
            typer.secho(line, fg=_COLOURS.get(line[0]))
    if not changes:
        typer.echo(nothing)


def _change(change: "Change") -> dict[str, Any]:
    fields = {name: {"old": old, "new": new} for name, (old, new) in change.fields.items()}
    return {"action": change.action, "what": change.what, "fields": fields}


def _record(row: "Row") -> dict[str, Any]:
    from clusterra_admin.provision.changes import masked

    return {
        "tenant": row.ref.tenant,
        "cluster": row.ref.cluster,
        "name": row.binding.name,
        "state": row.binding.lifecycle if row.recorded else UNRECORDED,
        "version": row.binding.version,
        "slurmrestd_url": masked(row.binding.slurmrestd_url),
        "heartbeat_seconds": row.heartbeat_seconds,
        "workers": row.workers,
        "pending": row.pending,
        "running": row.running,
    }


def _heartbeat(row: "Row") -> str:
    from clusterra_admin.provision.record import OLD_SECONDS

    if row.heartbeat_seconds is None:
        return "none"
    return f"{row.heartbeat_seconds:.0f} s ago" + (" (old)" if row.heartbeat_seconds > OLD_SECONDS else "")


def _remaining(ref: "ClusterRef", row: "Row") -> list[str]:
    from clusterra_admin.provision.changes import masked

    place = f"--tenant {ref.tenant} --cluster {ref.cluster}"
    found = [
        f"the edge-agent: stop it, and end its login with `clusterra-admin secrets revoke DIRECTORY {place}`",
        f"Slurm itself at {masked(row.binding.slurmrestd_url)}, with its accounting",
        "the cluster's history in the tables of events and fleets; a new cluster of this name would go on from it",
        "the tenant, its people and their user names, which keep their uids for good",
    ]
    if row.workers is None:
        found.insert(0, "perhaps workers: no edge-agent reports any, nor that there are none")
    if not row.idle:
        found.insert(0, f"{row.workers or 0} workers and {(row.pending or 0) + (row.running or 0)} jobs, on their own")
    return found
