"""`clusterra-admin tables`: what the services' tables are, and making them so."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterra_admin.terminal import DIFFERS, Json, fail, failing_on, log_to_stderr, print_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterra_runtime.store.dynamodb import DynamoDBStore
    from clusterra_runtime.store.store import Table

command = typer.Typer(no_args_is_help=True, help="Tables of DynamoDB.")


@command.command("list")
def list_tables(json: Json = False) -> None:
    """Print every table: its name, what it holds, its keys, indexes and expiry, and the service that uses it."""
    from clusterra_runtime.store.dynamodb_tables import EXPIRY_ATTRIBUTE

    from clusterra_admin.tables.declared import USES

    prefix = _prefix()
    tables: list[dict[str, Any]] = [
        {
            "name": prefix + use.table.name,
            "holds": use.holds,
            "service": service,
            "operations": sorted(use.operations),
            "keys": {"partition": "pk", "sort": "sk"},
            "indexes": [
                {"name": index.name, "partition": index.partition, "sort": index.sort} for index in use.table.indexes
            ],
            "expiry": EXPIRY_ATTRIBUTE,
        }
        for service, uses in USES.items()
        for use in uses
    ]
    if json:
        print_json({"tables": tables})
        return
    for table in tables:
        indexes = ", ".join(f"{each['name']} ({each['partition']}, {each['sort']})" for each in table["indexes"])
        typer.echo(f"{table['name']}: {table['holds']}")
        typer.echo(f"  {table['service']}: {', '.join(table['operations'])}")
        typer.echo(f"  keys pk, sk; indexes: {indexes or 'none'}; items expire by {table['expiry']}")


@command.command()
def apply(json: Json = False) -> None:
    """Create what is missing, and wait until every table is active. A second run changes nothing."""

    async def applied(store: "DynamoDBStore", table: "Table") -> dict[str, Any]:
        name = store.table_name(table)
        found = await store.differences(table)
        if found and not json:
            typer.echo(f"{name}: {', '.join(found)}: creating what is missing")
        if found:
            await store.create_tables(table)
        if not json:
            typer.echo(f"{name}: {'created, and active' if found else 'as declared'}")
        return {"name": name, "found": found, "outcome": "changed" if found else "as declared"}

    tables = _each(applied)
    if json:
        print_json({"tables": tables})


@command.command()
def check(json: Json = False) -> None:
    """Print how the tables differ from their declaration, and change nothing. The exit code is 2 if any differs."""

    async def checked(store: "DynamoDBStore", table: "Table") -> dict[str, Any]:
        return {"name": store.table_name(table), "differences": await store.differences(table)}

    tables = _each(checked)
    if json:
        print_json({"tables": tables})
    else:
        for table in tables:
            typer.echo(f"{table['name']}: {', '.join(table['differences']) or 'as declared'}")
    if any(table["differences"] for table in tables):
        raise typer.Exit(DIFFERS)


@command.command()
def policy(
    service: Annotated[str, typer.Option(help="gateway, scaler, events, or admin for this command.")],
    region: Annotated[str, typer.Option(help="Region of the tables.")] = "*",
    account: Annotated[str, typer.Option(help="Account of the tables.")] = "*",
) -> None:
    """Print the IAM policy of a service, as JSON: the fewest actions, on its own tables only."""
    from clusterra_admin.tables import policy as policies

    if service not in policies.SERVICES:
        fail(f"{service!r} has no tables", f"choose one of: {', '.join(policies.SERVICES)}")
    print_json(policies.policy(service, prefix=_prefix(), region=region, account=account))


def _prefix() -> str:
    from clusterra_gateway.settings import RecordSettings
    from pydantic import ValidationError

    with failing_on(ValidationError):
        return RecordSettings().table_prefix


def _each[T](work: "Callable[[DynamoDBStore, Table], Awaitable[T]]") -> list[T]:
    """Do something with every table at the same time."""
    from clusterra_runtime.store.dynamodb import DynamoDBStore
    from clusterra_runtime.store.store import StoreError

    from clusterra_admin.tables.declared import TABLES

    async def run() -> list[T]:
        async with DynamoDBStore(table_prefix=_prefix()) as store:
            return await asyncio.gather(*(work(store, table) for table in TABLES))

    log_to_stderr()
    with failing_on(StoreError):
        return asyncio.run(run())
