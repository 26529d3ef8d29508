"""`clusterra-admin`: one command for the operators of an installation."""

from importlib.metadata import version
from typing import Annotated

import typer

from clusterra_admin import ledger, topology, versions
from clusterra_admin.authority.command import authority
from clusterra_admin.backup.command import backup, restore
from clusterra_admin.dead_letters.command import command as dead_letters
from clusterra_admin.doctor.command import doctor
from clusterra_admin.migrations.command import command as migrate
from clusterra_admin.provision.command import command as provision
from clusterra_admin.secrets.command import command as secrets
from clusterra_admin.tables.command import command as tables

# This module only adds the commands, and no command's module imports anything slow outside its functions: `--help` must
# answer at once.
command = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Settings come from the environment, as those of the services do: CLUSTERRA_NATS_URL, AWS_REGION and so on."
    " Exit codes: 0 done, or as declared; 1 failed; 2 something differs or would change, or the command line is wrong."
    " `doctor` and `restore` say in their own --help what 1 and 2 mean there.",
)
command.add_typer(topology.command, name="topology")
command.add_typer(tables, name="tables")
command.add_typer(migrate, name="migrate")
command.add_typer(provision, name="provision")
command.add_typer(ledger.command, name="ledger")
command.add_typer(dead_letters, name="dead-letters")
command.add_typer(secrets, name="secrets")
command.command()(versions.versions)
command.command()(authority)
command.command()(doctor)
command.command()(backup)
command.command()(restore)


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
