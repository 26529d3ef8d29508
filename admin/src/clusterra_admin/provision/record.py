"""The record of an installation, opened for the commands of `provision`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS
from clusterra_gateway.accounts.projection import ClusterState, Projection, set_cluster_state
from clusterra_gateway.bus.connection import followed_registry
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest, NotFound
from clusterra_gateway.settings import RecordSettings
from clusterra_gateway.tenants.provisioning import ACTOR, Provisioning
from clusterra_gateway.tenants.shares import give_share_back
from clusterra_gateway.tenants.specification import ProvisionFile
from clusterra_gateway.tenants.tenant_clusters import TenantClusters
from clusterra_runtime import catalogue
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.queue import last_head
from clusterra_runtime.nats.registry import Registry, delete_binding
from clusterra_runtime.nats.streams.heartbeats import last_heartbeat
from clusterra_runtime.outbound import Outbound
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import TableMissing

from clusterra_admin.nats_connection import connected
from clusterra_admin.provision.changes import Change, change_of
from clusterra_admin.provision.draft import Draft
from clusterra_admin.provision.file import read

log = structlog.get_logger()

OLD_SECONDS = 60.0
"""A heartbeat that is older than this no longer proves that an edge works."""


@dataclass(frozen=True)
class Row:
    """A cluster and what is known of it now. `workers` and the counts of jobs are None where nobody reports them."""

    ref: ClusterRef
    binding: ClusterBinding
    recorded: bool
    """False for a cluster that only the services know: its removal was interrupted, and `remove` completes it."""
    heartbeat_seconds: float | None
    workers: int | None
    pending: int | None
    running: int | None

    @property
    def idle(self) -> bool:
        """Whether no worker and no job is reported."""
        return not (self.workers or self.pending or self.running)


@dataclass(frozen=True)
class Record:
    """The record and the bus, as the commands use them."""

    directory: Directory
    client: Client
    registry: Registry
    settings: RecordSettings

    async def plan(self, file: Path) -> list[Change]:
        """What `apply` would change. Writes nothing. Raises RequestError, CatalogueInvalid, StoreError."""
        given = read(file)
        draft = Draft(self.directory.store, ACCOUNTS)
        await draft.create_tables(ACCOUNTS)
        async with Outbox(draft, _unpublished) as outbox:
            await self._provision(Directory(draft, outbox), given)
        return [change_of(*change) for change in await draft.changes()]

    async def apply(self, file: Path) -> list[Change]:
        """Write what differs, and return it. A file with a mistake is rejected before anything is written.

        Raises as `plan` does, and BusUnavailable.
        """
        changes = await self.plan(file)
        if changes:
            await self._provision(self.directory, read(file))
        await self.project()
        return changes

    async def project(self) -> list[ClusterRef]:
        """Tell the services about clusters that they know in an older version, or not at all."""
        return await Projection(self.directory, self.client, self.registry).project()

    async def rows(self) -> list[Row]:
        """Every cluster of the record and of the registry, in the order of their names.

        Of a cluster whose last messages cannot be read, nothing is known.
        """
        recorded = await self.directory.clusters()
        clusters = {**self.registry.clusters, **recorded}

        async def row(ref: ClusterRef) -> Row:
            try:
                return await self._row(ref, clusters[ref], ref in recorded)
            except InvalidRequest as error:
                log.warning("cluster_not_read", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
                return Row(ref, clusters[ref], ref in recorded, None, None, None, None)

        return list(await asyncio.gather(*map(row, sorted(clusters, key=str))))

    async def set_state(self, ref: ClusterRef, state: ClusterState) -> bool:
        """Pause or resume a cluster. Returns whether that changed anything. Raises NotFound."""
        changed = await set_cluster_state(self.directory, ref, state, actor=ACTOR)
        await self.project()
        return changed

    async def remove(self, ref: ClusterRef, *, force: bool) -> Row:
        """Remove a cluster, its agent key, and what the services know of it. Returns its last state.

        It also removes a cluster that only the registry has, because an earlier removal was interrupted. Raises
        NotFound, and Conflict while workers or jobs are reported. An edge that is silent for 5 min reports none.
        """
        recorded = await self.directory.cluster(ref)
        binding = recorded or self.registry.get(ref)
        if binding is None:
            raise _unknown(ref)
        if binding.deleting and not force:
            raise Conflict(
                f"cluster {ref} is being deleted, and the gateways remove it",
                hint="wait until it is not listed any more; --force of this command leaves its history behind",
            )
        row = await self._row(ref, binding, recorded is not None)
        if not force and not row.idle:
            raise Conflict(
                f"cluster {ref} has {row.workers or 0} workers, {row.pending or 0} waiting and"
                f" {row.running or 0} running jobs",
                hint="pause it, let its jobs end or cancel them, and wait for its workers to go; or give --force,"
                " which leaves them behind",
            )
        await TenantClusters(self.directory, self.registry, None).remove(ref)
        await delete_binding(self.client, ref)
        try:
            await give_share_back(self.directory, self.registry, ref)
        except Conflict as refused:
            # The cluster is gone all the same, and the others keep the caps that they have.
            log.warning("share_not_given_back", tenant=ref.tenant, cluster=ref.cluster, reason=str(refused))
        await self.project()
        return row

    async def _provision(self, directory: Directory, given: ProvisionFile) -> None:
        file = self.settings.catalogue_file
        shapes = None if file is None else catalogue.load(file)
        outbound = Outbound(self.settings.outbound_allowed)
        await Provisioning(directory, shapes, self.registry, outbound).apply(given)

    async def _row(self, ref: ClusterRef, binding: ClusterBinding, recorded: bool) -> Row:
        try:
            heard = await last_heartbeat(self.client, ref)
            snapshot = await last_head(self.client, ref)
        except InvalidMessage as error:
            raise InvalidRequest(f"the last message about {ref} cannot be read: {error}") from error
        heartbeat, heard_at = (None, None) if heard is None else heard
        return Row(
            ref,
            binding,
            recorded,
            None if heard_at is None else max((now() - heard_at).total_seconds(), 0.0),
            None if heartbeat is None or heartbeat.workers is None else len(heartbeat.workers),
            *_job_counts(snapshot),
        )


def _job_counts(snapshot: QueueSnapshot | None) -> tuple[int | None, int | None]:
    """The numbers of pending and running jobs, as far as they are known."""
    if snapshot is None:
        return None, None
    return snapshot.list_counts.pending, snapshot.list_counts.running


@asynccontextmanager
async def opened() -> AsyncIterator[Record]:
    """The record that the environment leads to, until the block ends.

    Raises TableMissing without its table, NatsUnreachable.
    """
    settings = RecordSettings()
    async with (
        DynamoDBStore(table_prefix=settings.table_prefix) as store,
        connected(settings, ACTOR) as client,
        followed_registry(client) as registry,
        Outbox(store, partial(bus.store, client)) as outbox,
    ):
        if missing := await store.missing_tables(ACCOUNTS):
            raise TableMissing(f"the table {missing[0]} does not exist: run `clusterra-admin tables apply`")
        yield Record(Directory(store, outbox), client, registry, settings)


def _unknown(ref: ClusterRef) -> NotFound:
    return NotFound(f"there is no cluster {ref} in the record", hint="see `clusterra-admin provision list`")


async def _unpublished(*_message: object) -> None:
    """Publishes nothing: a plan has no messages."""
