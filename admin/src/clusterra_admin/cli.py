"""`clusterra-admin`: one command for the operators of an installation."""

from importlib.metadata import version
from typing import Annotated

import typer

command = typer.Typer(no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)


def _print_version(given: bool) -> None:
    if given:
        typer.echo(version("clusterra-admin"))
        raise typer.Exit


@command.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Operate an installation of Clusterra."""
