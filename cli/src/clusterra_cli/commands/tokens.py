"""`tokens`: your tokens for programs, to list and to revoke.

The gateway makes no token for a token: new ones come from `login`, or from a browser.
"""

from typing import Annotated

import typer

from clusterra_cli.connection import Json, Quiet, Url, connected
from clusterra_cli.output import Column, Output, moment, note

tokens = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List and revoke your tokens for programs.")


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(tokens, name="tokens")


@tokens.command("list")
def list_tokens(json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List your tokens."""
    with connected(url) as client:
        found = client.tokens()
    Output(json, quiet).listed(
        found,
        (Column("TOKEN"), Column("NAME"), Column("MADE"), Column("VALID UNTIL"), Column("SCOPES")),
        lambda each: (each.id, each.name, moment(each.created_at), moment(each.expires_at), _scopes(each.scopes)),
        lambda each: each.id,
    )


def _scopes(scopes: tuple[str, ...] | None) -> str:
    return "all" if scopes is None else " ".join(scopes)


@tokens.command("revoke")
def revoke_token(
    token_ids: Annotated[list[str], typer.Argument(metavar="TOKEN...", help="The ids of tokens.")],
    url: Url = None,
) -> None:
    """Revoke tokens."""
    with connected(url) as client:
        for each in token_ids:
            client.revoke_token(each)
            note(f"{each} is revoked")
