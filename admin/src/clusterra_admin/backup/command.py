"""`clusterra-admin backup` and `clusterra-admin restore`."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_admin.terminal import DIFFERS, Json, failing_on, log_to_stderr

if TYPE_CHECKING:
    from clusterra_runtime.nats.client import Client
    from clusterra_runtime.store.dynamodb_client import Client as DynamoDBClient

UID_GAP = 1000
"""Uids that each tenant skips: people who joined after the backup had some of them, and own files under them."""

Target = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|FILE.tar", help="The backup. It holds personal data, so only its owner may read it."
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Restore into an installation that is not empty, or runs: items with the same keys are REPLACED by those "
        "of the backup, others stay.",
    ),
]
UidGap = Annotated[
    int,
    typer.Option(min=0, max=1_000_000, help="Uids to skip in each tenant. 0 only if nobody joined after the backup."),
]


def backup(target: Target, json: Json = False) -> None:
    """Write the record and the streams to a new or empty folder, or to a new file. Services may run meanwhile.

    Secrets are not part of it: keep the directory of `clusterra-admin secrets init` too. Exit codes: 0 done, 1
    failed.
    """
    from clusterra_admin.backup.progress import Progress
    from clusterra_admin.backup.single_file import written
    from clusterra_admin.backup.take import take

    async def run(client: "Client", dynamodb: "DynamoDBClient", prefix: str) -> None:
        async with written(target) as folder:
            taken = await take(client, dynamodb, prefix, folder, Progress())
        items = sum(table.file.lines for table in taken.tables)
        messages = sum(stream.file.lines for stream in taken.streams)
        size = sum(part.file.bytes for part in taken.parts)
        text = f"{target}: {items} items, {messages} messages, {size / 2**20:.1f} MiB"
        typer.echo(taken.model_dump_json(indent=2) if json else text)

    _connected(run)


def restore(target: Target, force: Force = False, uid_gap: UidGap = UID_GAP, json: Json = False) -> None:
    """Restore a backup into an installation with empty tables and a new NATS store, whose services do not run yet.

    Run it again after an interruption: it continues. Exit codes: 0 done, 1 failed, 2 done except for items that could
    not be restored, each of which is named.
    """
    from clusterra_admin.backup.progress import Progress
    from clusterra_admin.backup.restore import Restore
    from clusterra_admin.backup.single_file import opened

    async def run(client: "Client", dynamodb: "DynamoDBClient", prefix: str) -> None:
        async with opened(target) as folder:
            outcome = await Restore(client, dynamodb, prefix, Progress()).run(folder, force=force, uid_gap=uid_gap)
        if json:
            typer.echo(outcome.model_dump_json(indent=2))
        for part in (*outcome.tables, *outcome.streams):
            if not json:
                left_out = f", {part.expired} expired, {part.repeated} there already, {part.bad} not restorable"
                typer.echo(f"{part.name}: {part.restored} restored{left_out}")
            for problem in part.problems:
                typer.echo(f"{part.name}, {problem}", err=True)
        if outcome.bad:
            raise typer.Exit(DIFFERS)

    _connected(run)


def _connected(run: "Callable[[Client, DynamoDBClient, str], Awaitable[None]]") -> None:
    from clusterra_gateway.settings import RecordSettings
    from clusterra_runtime.nats.bus import BusUnavailable
    from clusterra_runtime.store.dynamodb_client import Client as DynamoDBClient
    from clusterra_runtime.store.store import StoreError
    from pydantic import ValidationError

    from clusterra_admin.backup.manifest import BackupInvalid
    from clusterra_admin.backup.situation import RestoreRefused
    from clusterra_admin.nats_connection import NatsUnreachable, connected

    log_to_stderr()

    async def main(settings: RecordSettings) -> None:
        dynamodb = DynamoDBClient()
        async with connected(settings) as client:
            await dynamodb.open()
            try:
                await run(client, dynamodb, settings.table_prefix)
            finally:
                await dynamodb.close()

    with failing_on(
        ValidationError, BackupInvalid, RestoreRefused, StoreError, BusUnavailable, NatsUnreachable, OSError
    ):
        asyncio.run(main(RecordSettings()))
