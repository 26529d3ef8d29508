"""`clusterra-admin topology`: the streams, consumers and buckets of NATS, as the contracts declare them."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterra_admin.terminal import DIFFERS, Json, Timeout, fail, failing_on, log_to_stderr, print_json

if TYPE_CHECKING:
    from clusterra_runtime.nats.topology import Change

Replicas = Annotated[int, typer.Option(min=1, max=5, help="Replicas of each stream: 3 in production.")]
Scale = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        help="Multiplies the bounds of all streams: 1 needs 4 GiB on each server. Default: what the server has.",
    ),
]

TIMEOUT_SECONDS = 120.0
"""Longer than NATS needs to start, so that an installation may begin both at the same time."""

command = typer.Typer(no_args_is_help=True, help="Streams, consumers and buckets of NATS.")


@command.command()
def apply(replicas: Replicas = 1, scale: Scale = None, timeout: Timeout = TIMEOUT_SECONDS, json: Json = False) -> None:
    """Create and update what differs from the declaration. A second run changes nothing, and nothing is deleted."""
    changes = _changes(replicas, scale, timeout, change=True)
    _print(changes, "changed" if changes else "as declared", json)


@command.command()
def check(replicas: Replicas = 1, scale: Scale = None, timeout: Timeout = TIMEOUT_SECONDS, json: Json = False) -> None:
    """Print what `apply` would change, and change nothing. The exit code is 2 if anything differs."""
    changes = _changes(replicas, scale, timeout, change=False)
    _print(changes, "differs" if changes else "as declared", json)
    if changes:
        raise typer.Exit(DIFFERS)


def _changes(replicas: int, scale: int | None, timeout: float, *, change: bool) -> "list[Change]":
    from clusterra_runtime.nats.topology import Size, TopologyConflict, apply_when_ready
    from clusterra_runtime.settings import ServiceSettings
    from pydantic import ValidationError

    log_to_stderr()
    with failing_on(TopologyConflict, ValidationError):
        settings = ServiceSettings()

        async def bounded() -> "list[Change]":
            async with asyncio.timeout(timeout):
                return await apply_when_ready(settings, Size(replicas, scale), change=change)

        try:
            return asyncio.run(bounded())
        except TimeoutError:
            fail(
                f"{settings.nats_url} did not answer within {timeout:g} s",
                "check CLUSTERRA_NATS_URL and CLUSTERRA_NATS_CREDENTIALS_FILE, or raise --timeout",
            )


def _print(changes: "list[Change]", outcome: str, as_json: bool) -> None:
    if as_json:
        print_json({"outcome": outcome, "changes": [_record(change) for change in changes]})
        return
    for change in changes:
        typer.echo(str(change))
    typer.echo(outcome)


def _record(change: "Change") -> dict[str, Any]:
    fields = {name: {"old": old, "new": new} for name, (old, new) in change.fields.items()}
    return {"what": change.what, "created": change.created, "fields": fields}
