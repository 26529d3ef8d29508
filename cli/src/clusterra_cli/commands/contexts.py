"""`context`: which gateway and which cluster the commands use, where they name none."""

from typing import Annotated

import typer

from clusterra_cli import exit_codes
from clusterra_cli.connection import Json, Quiet
from clusterra_cli.output import Column, Output, note
from clusterra_cli.usage import WrongUsage

contexts = typer.Typer(rich_markup_mode=None, help="List, choose and change contexts: gateways and their clusters.")
Name = Annotated[str, typer.Argument(help="The name of the context.")]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(contexts, name="context")


@contexts.callback(invoke_without_command=True)
def show(context: typer.Context) -> None:
    """Without a command: list the contexts."""
    if context.invoked_subcommand is None:
        list_contexts()


@contexts.command("list")
def list_contexts(json: Json = False, quiet: Quiet = False) -> None:
    """List the contexts; `*` marks the one in use."""
    from clusterra.context import load, path

    output, stored = Output(json, quiet), load()
    each_one = stored.by_name.values()
    if json:
        listed = [{"name": each.name, "url": each.url, "cluster": each.cluster} for each in each_one]
        output.document({"current": stored.current, "contexts": listed, "file": str(path())})
    elif quiet:
        output.ids(stored.by_name)
    else:
        columns = (Column(""), Column("CONTEXT"), Column("GATEWAY"), Column("CLUSTER"))
        output.table(
            columns,
            (("*" if each.name == stored.current else "", each.name, each.url, each.cluster) for each in each_one),
        )
        note(f"from {path()}")


@contexts.command()
def use(name: Name) -> None:
    """Use this context from now on."""
    from clusterra.context import load, save

    save(load().using(name))


@contexts.command("set")
def set_context(
    name: Name,
    url: Annotated[str | None, typer.Option("--url", help="The gateway's address.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", "-M", help="The cluster's id.")] = None,
) -> None:
    """Make a context, or change its gateway or cluster."""
    from clusterra.context import NAME, Context, canonical_url, load, save

    stored = load()
    before = stored.by_name.get(name)
    if before is None and url is None:
        raise WrongUsage(f"--url is needed for the new context {name}")
    if not NAME.fullmatch(name):
        raise WrongUsage(f"{name!r} is no name: it has letters, digits, - and _, at most 64")
    address = canonical_url(url) if url else before.url if before else ""
    known = before.cluster if before and before.url == address else None
    save(stored.having(Context(name, address, cluster or known), use=stored.current is None))


@contexts.command("remove")
def remove_context(name: Name) -> None:
    """Remove a context. The token of its gateway stays until `clusterra logout`."""
    from clusterra.context import load, save

    stored = load()
    if name not in stored.by_name:
        exit_codes.end(exit_codes.NOT_FOUND, f"there is no context {name}")
    save(stored.without(name))
