"""`members`: the people and programs of your workspace, for its admins."""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.commands.for_each import for_each
from clusterra_cli.commands.listing_group import listing_group
from clusterra_cli.commands.people.tokens import print_tokens
from clusterra_cli.completion import known_members
from clusterra_cli.connection import Json, Limit, Quiet, Url, connected, joined
from clusterra_cli.output import Column, Output, moment
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client
    from clusterra.models import Member

MEMBERS = "/v1/members"
MemberArgument = Annotated[
    str,
    typer.Argument(metavar="MEMBER", autocompletion=known_members, help="A member's Slurm name, address or id."),
]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(members, name="members")


def list_members(limit: Limit = 1000, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List the members, in the order of their names."""
    from clusterra.models import Member

    with connected(url) as client:
        found = list(client.pages(Member, MEMBERS, query={"limit": min(limit, 200)}, limit=limit))
    Output(json, quiet).listed(
        found,
        (
            *(Column("NAME"), Column("UID", right=True), Column("KIND"), Column("ROLE"), Column("ADDRESS")),
            *(Column("DISPLAYED AS"), Column("DISABLED"), Column("JOINED")),
        ),
        lambda each: (
            *(each.name, each.uid, each.kind, each.role, each.email),
            *(each.display_name, "yes" if each.disabled else "", moment(each.joined_at)),
        ),
        lambda each: each.name,
    )


members = listing_group(
    list_members,
    "List and update the members of your workspace. This needs an admin's token with the scopes members:read and"
    " members:write: `clusterra login --scope profile --scope members:read --scope members:write`.",
)


@members.command()
def show(member: MemberArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Show a member."""
    with connected(url) as client:
        found = _found(client, member)
    _show(found, Output(json, quiet))


@members.command()
def update(
    member: MemberArgument,
    role: Annotated[
        str | None, typer.Option("--role", help="viewer, member, admin or owner; only an owner makes an owner.")
    ] = None,
    disable: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Whether all their credentials are refused.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Give a member another role, or disable or enable them. Their jobs go on."""
    from clusterra.models import Member

    if role is None and disable is None:
        raise WrongUsage("there is nothing to update", "give --role, --disable or --enable")
    changes = {name: given for name, given in (("role", role), ("disabled", disable)) if given is not None}
    with connected(url) as client:
        path = f"{MEMBERS}/{joined(_found(client, member).id)}"
        changed = client.fetch(Member, "PATCH", path, body=changes)
    _show(changed, Output(json, quiet))


@members.command()
def tokens(member: MemberArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List a member's tokens that are valid now."""
    from clusterra.models import Token

    with connected(url) as client:
        found = list(client.pages(Token, f"{MEMBERS}/{joined(_found(client, member).id)}/tokens"))
    print_tokens(Output(json, quiet), found)


@members.command("revoke-token")
def revoke_token(
    member: MemberArgument,
    token_ids: Annotated[list[str], typer.Argument(metavar="TOKEN...", help="The ids of the member's tokens.")],
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Revoke tokens of a member."""
    output = Output(json, quiet)
    with connected(url) as client:
        path = f"{MEMBERS}/{joined(_found(client, member).id, 'tokens')}"
        for_each(
            output,
            token_ids,
            lambda each: client.request("DELETE", f"{path}/{joined(each)}"),
            noun="token",
            outcome="revoked",
        )


def _found(client: "Client", named: str) -> "Member":
    """The member with this name, address or id. Ends the command where there is none, or several."""
    from clusterra.models import Member

    all_of_them = client.pages(Member, MEMBERS, query={"limit": 200})
    found = [each for each in all_of_them if named in (each.id, each.name) or named.lower() == each.email.lower()]
    if not found:
        exit_codes.end(exit_codes.NOT_FOUND, f"there is no member {named}: `clusterra members` lists them")
    if len(found) > 1:
        raise WrongUsage(f"several members have the address {named}", "name one of " + ", ".join(m.name for m in found))
    return found[0]


def _show(member: "Member", output: Output) -> None:
    fields = {
        "name": member.name,
        "uid": member.uid,
        "kind": member.kind,
        "role": member.role,
        "address": member.email,
        "displayed as": member.display_name,
        "disabled": "yes" if member.disabled else "no",
        "joined": moment(member.joined_at),
        "id": member.id,
    }
    output.one(member, member.name, fields)
