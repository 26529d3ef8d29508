"""`bus-credentials`: with one, a program of yours subscribes to the events of a workspace at NATS; for admins."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.commands.listing_group import listing_group
from clusterra_cli.completion import known_bus_credentials
from clusterra_cli.connection import Json, Quiet, Url, connected, joined
from clusterra_cli.output import Column, Output, moment, note

if TYPE_CHECKING:
    from clusterra.models import SignedBusCredential

BUS_CREDENTIALS = "/v1/bus-credentials"
Argument = Annotated[
    str,
    typer.Argument(
        metavar="CREDENTIAL",
        autocompletion=known_bus_credentials,
        help="A bus credential, as `clusterra bus-credentials` lists it.",
    ),
]
Hours = Annotated[int, typer.Option("--hours", min=1, max=168, help="For how many hours the login is valid.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Write the login, a JWT, to this file in place of printing it.")
]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(bus_credentials, name="bus-credentials")


def list_bus_credentials(json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List the bus credentials of your workspace."""
    from clusterra.models import BusCredential

    with connected(url) as client:
        found = list(client.pages(BusCredential, BUS_CREDENTIALS))
    Output(json, quiet).listed(
        found,
        (
            *(Column("CREDENTIAL"), Column("NAME"), Column("SUBJECT"), Column("BY"), Column("RENEWED")),
            *(Column("VALID UNTIL"), Column("PUBLIC KEY")),
        ),
        lambda each: (
            *(each.id, each.name, each.subject, each.created_by, moment(each.renewed_at)),
            *(moment(each.expires_at), each.public_key),
        ),
        lambda each: each.id,
    )


bus_credentials = listing_group(
    list_bus_credentials,
    "List, create, renew and revoke bus credentials, with which your programs subscribe to events. This needs an"
    " admin's token with the scopes bus-credentials:read and bus-credentials:write.",
)


@bus_credentials.command()
def create(
    public_key: Annotated[str, typer.Argument(help="The public NKey of a user that your program has made, `U...`.")],
    name: Annotated[str, typer.Option("--name", "-n", help="A name to recognise it by.")],
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-M", help="Events of this cluster; by default of all.")
    ] = None,
    hours: Hours = 24,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Create a bus credential for a key, and print its login. The seed of the key stays with your program."""
    from clusterra.models import SignedBusCredential

    body = {"name": name, "public_key": public_key, "cluster_id": cluster, "lifetime_seconds": hours * 3600}
    with connected(url) as client:
        made = client.fetch(SignedBusCredential, "POST", BUS_CREDENTIALS, body=body)
    _show(made, out, Output(json, quiet))
    if not quiet:
        note(f"bus credential {made.id} subscribes {made.subject} until {moment(made.expires_at)}")


@bus_credentials.command()
def renew(
    credential: Argument,
    hours: Hours = 24,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Sign a new login for the key of a bus credential, and print it. Present logins go on until they end."""
    from clusterra.models import SignedBusCredential

    body = {"lifetime_seconds": hours * 3600}
    with connected(url) as client:
        renewed = client.fetch(
            SignedBusCredential, "POST", f"{BUS_CREDENTIALS}/{joined(credential, 'renew')}", body=body
        )
    _show(renewed, out, Output(json, quiet))
    if not quiet:
        note(f"bus credential {renewed.id} is valid until {moment(renewed.expires_at)}")


@bus_credentials.command()
def revoke(credential: Argument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Revoke a bus credential: its connections are cut at once, and none of its logins works again."""
    with connected(url) as client:
        client.request("DELETE", f"{BUS_CREDENTIALS}/{joined(credential)}")
    Output(json, quiet).done(credential, f"bus credential {credential} is revoked", outcome="revoked")


def _show(signed: "SignedBusCredential", out: Path | None, output: Output) -> None:
    if out is None:
        output.one(signed, signed.id, signed.jwt)
        return
    out.write_text(f"{signed.jwt}\n")
    output.one(signed, signed.id, str(out))
