"""`top`: the queue, the fleet and the costs of a cluster on one screen, kept up to date by its events."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.connection import Cluster, Json, Url
from clusterra_cli.output import Output
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import AsyncClient

    from clusterra_cli.live.view import View


def add_to(command: typer.Typer) -> None:
    """Add this command."""
    command.command()(top)


def top(
    states: Annotated[str, typer.Option("--state", "-t", help="Only jobs in these states: RUNNING,PENDING.")] = "",
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only jobs of this user.")] = None,
    json: Json = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Show the queue, the workers and the costs, and keep them up to date. `?` shows the keys, `q` ends it."""
    if not json and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUsage("top needs a terminal", "--json prints the same as lines of JSON")
    import asyncio

    from clusterra import AsyncClient

    from clusterra_cli.live.view import View

    view = View(states=frozenset(each.strip() for each in states.upper().split(",") if each.strip()))
    client = AsyncClient(url, cluster=cluster)
    asyncio.run(_lines(client, user, view) if json else _screen(client, user, view))


async def _lines(client: "AsyncClient", user: str | None, view: "View") -> None:
    import asyncio

    from clusterra_cli.live.feed import Feed
    from clusterra_cli.live.json_lines import Changes

    output, changes, changed = Output(json=True), Changes(view), asyncio.Event()
    async with client:
        feed = Feed(client, user)
        feed.changed = changed.set
        running = asyncio.create_task(feed.run())
        try:
            while not running.done():
                waiting = asyncio.create_task(changed.wait())
                await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if changed.is_set():
                    changed.clear()
                    for line in changes.of(feed):
                        output.json_line(line)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        running.result()


async def _screen(client: "AsyncClient", user: str | None, view: "View") -> None:
    from clusterra_cli.live.screen import TopApp

    async with client:
        app = TopApp(client, user, view)
        await app.run_async()
    if app.error is not None:
        raise app.error
