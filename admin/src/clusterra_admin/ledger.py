"""`clusterra-admin ledger`: the ledger of what jobs and workers cost."""

import asyncio
from typing import Annotated

import typer

from clusterra_admin.terminal import Json, failing_on, log_to_stderr, print_json

command = typer.Typer(no_args_is_help=True, help="The ledger of what jobs and workers cost.")


@command.callback()
def _several() -> None:
    """Without this, typer would take the only command for the whole."""


@command.command()
def rebuild(
    tenant: Annotated[str, typer.Argument(help="The id of the tenant.")],
    cluster: Annotated[str, typer.Argument(help="The id of the cluster.")],
    json: Json = False,
) -> None:
    """Take all archived events of a cluster into the ledger again, while services run.

    What the ledger knows stays and counts once. A second run changes nothing.
    """
    from clusterra_contracts.identity import ClusterRef
    from clusterra_events.archive import Archive
    from clusterra_events.archive_table import ARCHIVE
    from clusterra_events.ledger.journal import Journal
    from clusterra_events.ledger.rebuild import rebuild as take_again
    from clusterra_events.settings import Settings
    from clusterra_runtime.store.dynamodb import DynamoDBStore
    from clusterra_runtime.store.store import StoreError
    from pydantic import ValidationError

    log_to_stderr()

    async def work() -> int:
        settings = Settings()
        ref = ClusterRef(tenant=tenant, cluster=cluster)
        async with DynamoDBStore(table_prefix=settings.table_prefix) as store:
            archive = Archive(store, ARCHIVE, retention=settings.event_retention)
            journal = Journal(store, retention_seconds=settings.ledger_retention_seconds)
            return await take_again(archive, journal, ref)

    with failing_on(StoreError, ValidationError):
        taken = asyncio.run(work())
    if json:
        print_json({"events": taken})
    else:
        typer.echo(f"{taken} events taken")
