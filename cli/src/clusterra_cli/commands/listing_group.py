"""Groups of commands that list what there is when none of their commands is named."""

from collections.abc import Callable

import typer


def listing_group(list_all: Callable[..., None], help_text: str) -> typer.Typer:
    """A group with the command `list`, which it also runs by itself."""
    group = typer.Typer(rich_markup_mode=None, help=help_text)

    @group.callback(invoke_without_command=True)
    def by_itself(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            list_all()

    group.command("list")(list_all)
    return group
