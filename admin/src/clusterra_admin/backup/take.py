"""Takes a backup: first the record, then the streams, at last the manifest."""

from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from clusterra_contracts.bus.topology import LEASES, REGISTRY, STREAMS, VERSIONS
from clusterra_contracts.identity import now
from clusterra_contracts.versions import GENERATION
from clusterra_runtime.nats.client import Client
from clusterra_runtime.store.dynamodb_client import Client as DynamoDBClient

from clusterra_admin.backup import manifest
from clusterra_admin.backup.manifest import BackupInvalid, Manifest
from clusterra_admin.backup.marker import restoring
from clusterra_admin.backup.progress import Progress
from clusterra_admin.backup.stream_backup import StreamReader
from clusterra_admin.backup.table_backup import TableReader
from clusterra_admin.tables.declared import TABLES

LEFT_OUT = {
    f"KV_{LEASES.name}": "leases belong to running replicas; new ones have higher fences",
    f"KV_{VERSIONS.name}": "announcements belong to running replicas",
}


async def take(client: Client, dynamodb: DynamoDBClient, prefix: str, folder: Path, progress: Progress) -> Manifest:
    """Write a backup into an empty or new folder. Raises BackupInvalid, StoreError, BusUnavailable, OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise BackupInvalid(f"{folder} is not empty: choose a new folder for each backup")
    if await restoring(dynamodb, prefix):
        raise BackupInvalid("a restore is under way: complete it first with `clusterra-admin restore`")
    began_at = now()
    highest_fence = 0
    tables = []
    for table in TABLES:
        reader = TableReader(dynamodb, table.name, prefix + table.name, progress)
        tables.append(await reader.back_up(folder))
        highest_fence = max(highest_fence, reader.highest_fence)
    streams = []
    for name in (*(stream.name for stream in STREAMS), f"KV_{REGISTRY.name}"):
        messages = StreamReader(client, name, progress)
        streams.append(await messages.back_up(folder))
        highest_fence = max(highest_fence, messages.highest_fence)
    taken = Manifest(
        id=uuid4().hex,
        version=version("clusterra-admin"),
        contracts_generation=GENERATION,
        began_at=began_at,
        ended_at=now(),
        table_prefix=prefix,
        nats_server=str(client._server_info.get("version", "")),
        highest_fence=highest_fence,
        tables=tuple(tables),
        streams=tuple(streams),
        left_out=LEFT_OUT,
    )
    manifest.write(folder, taken)
    return taken
