"""`sessions`: jobs that serve a page, such as JupyterLab, for the person who started them and for nobody else."""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.commands.for_each import for_each
from clusterra_cli.commands.listing_group import listing_group
from clusterra_cli.completion import known_sessions, known_templates
from clusterra_cli.connection import Cluster, Json, Key, Quiet, Url, connected, on_cluster
from clusterra_cli.output import Column, Output, moment, note, warn
from clusterra_cli.template_values import Confirmed, Inputs, SbatchOptions, Values, template_values

if TYPE_CHECKING:
    from clusterra import Client
    from clusterra.models import Session

    from clusterra_cli.session_forward.admission import Admission

SessionArgument = Annotated[
    str,
    typer.Argument(metavar="SESSION", autocompletion=known_sessions, help="A session: the id of its job, such as 42."),
]
POLL_SECONDS = 15.0
"""How often a forwarded session is read, to end with it."""


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(sessions, name="sessions")


def list_sessions(json: Json = False, quiet: Quiet = False, url: Url = None, cluster: Cluster = None) -> None:
    """List your sessions that have not ended, the newest first."""
    from clusterra.models import Session

    with connected(url, cluster) as client:
        found = list(client.pages(Session, on_cluster("sessions")))
    Output(json, quiet).listed(
        found,
        (Column("SESSION", right=True), *map(Column, ("TEMPLATE", "NAME", "STATE", "STARTED", "DETAIL"))),
        lambda each: (
            *(each.job_id, each.template_id, each.name),
            *(each.state, moment(each.created_at), each.detail),
        ),
        lambda each: each.job_id,
    )


sessions = listing_group(list_sessions, "List, start, open and stop interactive sessions.")


@sessions.command()
def start(
    template_id: Annotated[
        str, typer.Argument(autocompletion=known_templates, help="An interactive template, such as jupyter.")
    ],
    values: Values = None,
    inputs: Inputs = None,
    options: SbatchOptions = None,
    confirmed: Confirmed = None,
    key: Key = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Start a session from an interactive template."""
    from clusterra.models import StartedSession

    body = {"template_id": template_id, **template_values(values, inputs, options, confirmed).body}
    with connected(url, cluster) as client:
        started = client.fetch(StartedSession, "POST", on_cluster("sessions"), body=body, key=key)
    for each in started.warnings:
        warn(each)
    output = Output(json, quiet)
    output.one(started, started.job_id, f"Started session {started.job_id}")
    if not (json or quiet):
        note(f"to open it: clusterra sessions open {started.job_id}")


@sessions.command("open")
def open_session(
    job_id: SessionArgument,
    forward: Annotated[
        int | None,
        typer.Option(
            "--forward",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve the session at this port of your own machine, for one browser, until Ctrl-C; 0 is any port.",
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether a browser is opened.")] = True,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Print the address of a session's page, and open it in your browser, which must be signed in at the gateway.

    With --forward the browser needs no sign-in: the command prints an address of this machine that works once.
    """
    output = Output(json, quiet)
    with connected(url, cluster) as client:
        if forward is not None:
            _forward(client, job_id, forward, output)
            return
        session = _read(client, job_id)
        address = f"{client.url}{client.path(on_cluster('sessions', job_id, 'open'))}"
    if session.state == "ended":
        exit_codes.end(exit_codes.REFUSED, f"session {job_id} has ended: {session.detail}")
    _print_address(output, address, session.state)
    if session.state != "ready":
        note(f"the session is {session.state}: {session.detail}")
    if browser and not (json or quiet):
        import webbrowser

        if not webbrowser.open(address):
            note("no browser could be opened here")


def _print_address(output: Output, address: str, state: str) -> None:
    if output.json:
        output.document({"url": address, "state": state})
    else:
        output.text(address)


def _read(client: "Client", job_id: str) -> "Session":
    from clusterra.models import Session

    return client.fetch(Session, "GET", on_cluster("sessions", job_id))


def _forward(client: "Client", job_id: str, port: int, output: Output) -> None:
    import asyncio

    from clusterra_cli.session_forward.listener import listening
    from clusterra_cli.session_forward.page_sign_in import PageSignIn

    page = PageSignIn(client, job_id)

    def opened(admission: "Admission") -> None:
        note(f"a browser has opened it; for another one: {admission.address}")

    async def serve() -> str:
        from clusterra.errors import ClusterraError
        from clusterra.http.retrying import is_transient

        session = await asyncio.to_thread(page.session)
        async with listening(port, page.upstream, opened) as admission:
            _print_address(output, admission.address, session.state)
            note("open this address in a browser of this machine; Ctrl-C ends the forwarding, and not the session")
            while session.state != "ended":
                await asyncio.sleep(POLL_SECONDS)
                try:
                    session = await asyncio.to_thread(page.session)
                except ClusterraError as error:
                    if not is_transient(error):
                        raise
        return session.detail

    try:
        detail = asyncio.run(serve())
    except OSError as error:
        exit_codes.end(exit_codes.FAILED, f"port {port} cannot be listened at: {error.strerror}")
    note(f"session {job_id} has ended: {detail}")


@sessions.command()
def stop(
    job_ids: Annotated[
        list[str], typer.Argument(metavar="SESSION...", autocompletion=known_sessions, help="The ids of sessions.")
    ],
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """End sessions: cancel their jobs."""
    output = Output(json, quiet)
    with connected(url, cluster) as client:
        for_each(
            output,
            job_ids,
            lambda each: client.request("DELETE", on_cluster("sessions", each)),
            noun="session",
            outcome="stopped",
        )
