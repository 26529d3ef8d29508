"""`tokens`: your tokens for programs, to list, to create and to revoke.

The gateway creates no token for a token: a new one is approved in a browser, as a sign-in is.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.commands.for_each import for_each
from clusterra_cli.commands.people.sign_in import Insecure, Scopes, checked_address, signed_in
from clusterra_cli.connection import Json, Quiet, Url, connected
from clusterra_cli.output import Column, Output, moment, note

if TYPE_CHECKING:
    from clusterra.models import Token

tokens = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="List, create and revoke your tokens for programs."
)


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(tokens, name="tokens")


@tokens.command("list")
def list_tokens(json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List your tokens."""
    with connected(url) as client:
        found = client.tokens()
    print_tokens(Output(json, quiet), found)


def print_tokens(output: Output, found: "Sequence[Token]") -> None:
    """Print tokens, which are without their secrets."""
    output.listed(
        found,
        (
            *(Column("TOKEN"), Column("NAME"), Column("CREATED")),
            *(Column("LAST USED"), Column("VALID UNTIL"), Column("SCOPES")),
        ),
        lambda each: (
            *(each.id, each.name, moment(each.created_at)),
            *(moment(each.last_used_at), moment(each.expires_at), scopes_of(each.scopes)),
        ),
        lambda each: each.id,
    )


def scopes_of(scopes: tuple[str, ...] | None) -> str:
    """The scopes of a token, for people."""
    return "all" if scopes is None else " ".join(scopes)


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Option("--name", "-n", help="A name to recognise it by.")] = "",
    days: Annotated[int, typer.Option(min=1, max=90, help="For how many days it is valid.")] = 30,
    scopes: Scopes = None,
    device: Annotated[
        bool, typer.Option("--device", help="Show a code that you enter in the browser of any machine.")
    ] = False,
    insecure: Insecure = False,
    json: Json = False,
    url: Url = None,
) -> None:
    """Create a token for a program, which you approve in a browser. It is printed once, and kept nowhere."""
    from clusterra.target import chosen_target

    address = checked_address(chosen_target(url, None, None).url, insecure=insecure)
    made = signed_in(address, device=device, days=days, scopes=scopes, name=name)
    if json:
        Output(json).document({"token": made.token, "expires_at": made.ends_at, "scopes": made.scope.split()})
    else:
        Output().text(made.token)
    note(f"it is valid until {moment(made.ends_at)}, and is not shown again")


@tokens.command("revoke")
def revoke_token(
    token_ids: Annotated[list[str], typer.Argument(metavar="TOKEN...", help="The ids of tokens.")],
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Revoke tokens."""
    output = Output(json, quiet)
    with connected(url) as client:
        for_each(output, token_ids, client.revoke_token, noun="token", outcome="revoked")
