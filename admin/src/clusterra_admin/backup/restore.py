"""Restores a backup: first the record, then the registry from it, then the streams; at last new leases."""

from pathlib import Path

from clusterra_contracts.bus.topology import LEASES
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_gateway.accounts.keyspace import ACCOUNTS, CLUSTERS
from clusterra_runtime.nats.binding import InvalidBinding
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.store.attribute_value import key_record
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.dynamodb_client import Client as DynamoDBClient
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.record_level import LEVEL

from clusterra_admin.backup import manifest, marker
from clusterra_admin.backup.adjustments import Adjustments
from clusterra_admin.backup.lines import verify
from clusterra_admin.backup.manifest import Manifest
from clusterra_admin.backup.outcome import Outcome, PartOutcome
from clusterra_admin.backup.progress import Progress
from clusterra_admin.backup.situation import Situation, look
from clusterra_admin.backup.stream_restore import REBUILT, RESTORED, StreamWriter
from clusterra_admin.backup.table_restore import TableWriter
from clusterra_admin.jetstream import purge_stream
from clusterra_admin.tables.declared import TABLES

PAGE = 200


class Restore:
    """One restore into one installation. Running it again continues an interrupted one, and repeats nothing."""

    def __init__(self, client: Client, dynamodb: DynamoDBClient, prefix: str, progress: Progress) -> None:
        self._client = client
        self._dynamodb = dynamodb
        self._prefix = prefix
        self._progress = progress

    async def run(self, folder: Path, *, force: bool, uid_gap: int) -> Outcome:
        """Restore a folder. Nothing is written unless all checksums are right.

        Raises BackupInvalid, RestoreRefused, StoreError, BusUnavailable.
        """
        taken = manifest.read(folder)
        for part in taken.parts:
            await verify(folder, part.file)
        self._progress.tell(f"all checksums of the backup of {taken.ended_at:%Y-%m-%d %H:%M:%S} UTC are right")
        situation = await look(self._client, self._dynamodb, self._prefix, taken, force)
        await marker.mark(self._dynamodb, self._prefix, taken.id)
        outcome = Outcome(backup=taken.id, resumed=situation.resumed, rebuilt=dict(REBUILT))
        await self._drop_levels()
        outcome.tables = await self._tables(folder, taken, Adjustments(situation, uid_gap))
        outcome.clusters = await self._registry(situation)
        outcome.streams = await self._streams(folder, taken)
        # Whoever works, because the restore was forced, begins again from the record, under a higher fence.
        await purge_stream(self._client, f"KV_{LEASES.name}")
        await marker.unmark(self._dynamodb, self._prefix)
        return outcome

    async def _drop_levels(self) -> None:
        """Forget which migrations the target's records had: those of the backup are at the level that is in it."""
        for table in TABLES:
            await self._dynamodb.call("delete_item", TableName=self._prefix + table.name, Key=key_record(LEVEL))

    async def _tables(self, folder: Path, taken: Manifest, adjustments: Adjustments) -> list[PartOutcome]:
        return [
            await TableWriter(self._dynamodb, self._prefix + table.name, adjustments, self._progress).restore(
                folder, table
            )
            for table in taken.tables
        ]

    async def _registry(self, situation: Situation) -> int:
        """Copy the record's clusters to the registry, as the gateway does every 30 s."""
        written = 0
        async with DynamoDBStore(table_prefix=self._prefix) as store:
            async for item in all_items(lambda after: store.query(ACCOUNTS, CLUSTERS, limit=PAGE, cursor=after)):
                binding = ClusterBinding.model_validate_json(str(item.attributes["binding"]))
                if situation.bindings.get(item.key.sk) != binding:
                    try:
                        ref = ClusterRef.from_key(item.key.sk)
                        await put_binding(self._client, ref, binding, over_newer=True)
                    except InvalidBinding as error:
                        self._progress.tell(f"registry: {item.key.sk} is left out: {error}")
                        continue
                    written += 1
        self._progress.tell(f"registry: {written} clusters")
        return written

    async def _streams(self, folder: Path, taken: Manifest) -> list[PartOutcome]:
        backups = {stream.name: stream for stream in taken.streams}
        return [
            await StreamWriter(self._client, stream, self._progress).restore(folder, backups[stream.name])
            for stream in RESTORED
            if stream.name in backups
        ]
