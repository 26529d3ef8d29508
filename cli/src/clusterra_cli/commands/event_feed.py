"""`events`: what happened in a cluster, and what happens now."""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.commands.event_export import export
from clusterra_cli.commands.jobs import point_in_time
from clusterra_cli.connection import Cluster, Json, Limit, Url, connected
from clusterra_cli.output import Output, moment, note

if TYPE_CHECKING:
    from clusterra import Client
    from clusterra.models import Event


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback(invoke_without_command=True)(events)
    group.command()(export)
    command.add_typer(group, name="events")


def events(
    context: typer.Context,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Print what happens from now on.")] = False,
    kinds: Annotated[str, typer.Option("--kind", "-k", help="Only these kinds: job.failed,worker.*")] = "",
    subject: Annotated[str | None, typer.Option(help="Only about this job or node.")] = None,
    since: Annotated[str | None, typer.Option(help="Only since then: 2h, 3d or a date.")] = None,
    limit: Limit = 100,
    json: Json = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Print the newest events of a cluster, the newest last; or follow them. With --json one line for each."""
    if context.invoked_subcommand is not None:
        return
    output = Output(json)
    chosen = [each for each in kinds.split(",") if each]
    with connected(url, cluster) as client:
        if following:
            _follow(client, output, chosen, subject)
            return
        after = None if since is None else point_in_time(since)
        found = list(client.history(chosen, subject=subject, after=after, newest_first=True, limit=limit))
    for event in reversed(found):
        _print(output, event)


def _follow(client: "Client", output: Output, kinds: list[str], subject: str | None) -> None:
    from clusterra.operations.events import StreamedEvent

    for streamed in client.event_stream():
        if not isinstance(streamed, StreamedEvent):
            note("some events in between are missing: `clusterra events` has them")
        elif _wanted(streamed.event, kinds, subject):
            _print(output, streamed.event)


def _wanted(event: "Event", kinds: list[str], subject: str | None) -> bool:
    kind = event.data["kind"]
    matches = not kinds or any(kind == each or (each.endswith(".*") and kind.startswith(each[:-1])) for each in kinds)
    return matches and subject in (None, event.subject)


_SHOWN = ("state", "reason", "detail", "message", "actor", "shape", "exit_code", "name", "user")
"""The members of events that are shown."""


def _print(output: Output, event: "Event") -> None:
    if output.json:
        output.json_line(event)
        return
    data = event.data
    shown = "  ".join(f"{name}={data[name]}" for name in _SHOWN if data.get(name) not in (None, "", "None"))
    output.text(f"{moment(event.time)}  {data['kind']:<16}  {event.subject}  {shown}".replace("\n", " "))
