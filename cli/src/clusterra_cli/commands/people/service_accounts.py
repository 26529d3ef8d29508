"""`service-accounts`: members for programs, and the keys by which they sign in, for admins.

The gateway creates a key only for a browser's sign-in, so that a leaked token cannot create keys that outlive it.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.commands.for_each import for_each
from clusterra_cli.commands.listing_group import listing_group
from clusterra_cli.commands.people.tokens import print_tokens, scopes_of
from clusterra_cli.completion import known_service_accounts
from clusterra_cli.connection import Json, Quiet, Url, connected, joined
from clusterra_cli.output import Column, Output, moment

if TYPE_CHECKING:
    from clusterra.models import ServiceAccount

ACCOUNTS = "/v1/service-accounts"
AccountArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", autocompletion=known_service_accounts, help="The name of a service account."),
]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(accounts, name="service-accounts")


def list_accounts(json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List the service accounts of your workspace."""
    from clusterra.models import ServiceAccount

    with connected(url) as client:
        found = list(client.pages(ServiceAccount, ACCOUNTS))
    Output(json, quiet).listed(
        found,
        (
            *(Column("NAME"), Column("UID", right=True), Column("ROLE"), Column("DISABLED")),
            *(Column("CREATED"), Column("SCOPES"), Column("DESCRIPTION")),
        ),
        lambda each: (
            *(each.name, each.uid, each.role, "yes" if each.disabled else ""),
            *(moment(each.created_at), scopes_of(each.scopes), each.description),
        ),
        lambda each: each.name,
    )


accounts = listing_group(
    list_accounts,
    "List, create and change service accounts. This needs an admin's token with the scopes members:read and"
    " members:write. Keys are created with a browser's sign-in alone.",
)


@accounts.command()
def show(name: AccountArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Show a service account."""
    from clusterra.models import ServiceAccount

    with connected(url) as client:
        found = client.fetch(ServiceAccount, "GET", f"{ACCOUNTS}/{joined(name)}")
    _show(found, Output(json, quiet))


@accounts.command()
def create(
    name: Annotated[str, typer.Argument(help="Its Slurm user name, such as ci.")],
    role: Annotated[str, typer.Option("--role", help="viewer, member or admin.")] = "member",
    scopes: Annotated[
        list[str] | None, typer.Option("--scope", help="What its keys may be used for; by default all of its role.")
    ] = None,
    description: Annotated[str, typer.Option("--description", "-d", help="What it is for.")] = "",
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Create a service account. It has no key yet."""
    from clusterra.models import ServiceAccount

    body: dict[str, object] = {"name": name, "role": role, "description": description}
    body |= {"scopes": scopes} if scopes else {}
    with connected(url) as client:
        created = client.fetch(ServiceAccount, "POST", ACCOUNTS, body=body)
    _show(created, Output(json, quiet))


@accounts.command()
def disable(name: AccountArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Refuse all keys of a service account until it is enabled. Its jobs go on."""
    _change(name, True, Output(json, quiet), url)


@accounts.command()
def enable(name: AccountArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Accept the keys of a disabled service account again."""
    _change(name, False, Output(json, quiet), url)


def _change(name: str, disabled: bool, output: Output, url: str | None) -> None:
    from clusterra.models import Member, ServiceAccount

    path = f"{ACCOUNTS}/{joined(name)}"
    with connected(url) as client:
        account = client.fetch(ServiceAccount, "GET", path)
        client.fetch(Member, "PATCH", f"/v1/members/{joined(account.id)}", body={"disabled": disabled})
        account = client.fetch(ServiceAccount, "GET", path)
    _show(account, output)


@accounts.command()
def delete(name: AccountArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Delete a service account with its keys. Its jobs go on."""
    with connected(url) as client:
        client.request("DELETE", f"{ACCOUNTS}/{joined(name)}")
    Output(json, quiet).done(name, f"service account {name} is deleted", outcome="deleted")


@accounts.command()
def keys(name: AccountArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List the keys of a service account that are valid now."""
    from clusterra.models import Token

    with connected(url) as client:
        found = list(client.pages(Token, f"{ACCOUNTS}/{joined(name)}/keys"))
    print_tokens(Output(json, quiet), found)


@accounts.command("revoke-key")
def revoke_key(
    name: AccountArgument,
    key_ids: Annotated[list[str], typer.Argument(metavar="KEY...", help="The ids of its keys.")],
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Revoke keys of a service account."""
    output = Output(json, quiet)
    with connected(url) as client:
        for_each(
            output,
            key_ids,
            lambda each: client.request("DELETE", f"{ACCOUNTS}/{joined(name, 'keys', each)}"),
            noun="key",
            outcome="revoked",
        )


def _show(account: "ServiceAccount", output: Output) -> None:
    fields = {
        "name": account.name,
        "uid": account.uid,
        "role": account.role,
        "scopes": scopes_of(account.scopes),
        "description": account.description,
        "disabled": "yes" if account.disabled else "no",
        "created": moment(account.created_at),
        "id": account.id,
    }
    output.one(account, account.name, fields)
