"""Everything the proxy holds of one cluster."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.secrets import SecretUnavailable, read_secret

from clusterra_proxy.admission.keeper import MAX_PLACEHOLDERS, PlaceholderKeeper
from clusterra_proxy.admission.placeholders import desired_placeholders
from clusterra_proxy.cluster.idempotency import IdempotencyKeys
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.accounting import Accounting
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import SlurmFailed, Unavailable
from clusterra_proxy.slurmrestd.future_nodes import FutureNodeRecords
from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld
from clusterra_proxy.slurmrestd.tokens import TokenMint, UserNames

log = structlog.get_logger(__name__)

FRESH_SECONDS = 2.0
"""What was seen within this time is answered without asking Slurm again."""
PRIVILEGED_SECONDS = 60.0
"""How often slurmdbd is asked which names have rights over others."""
PRIVILEGED_RETRY_SECONDS = 1.0
FIRST_PRIVILEGED_SECONDS = 2.0


class Listener(Protocol):
    """Who is told of what was seen."""

    def on_jobs(self, records: tuple[JobRecord, ...]) -> None:
        """Records that were read."""

    def holds_nodes(self) -> None:
        """The nodes may have changed."""


@dataclass
class Cluster:
    """One cluster: its Slurm, and what was last seen of it. Only the watcher changes what was seen."""

    ref: ClusterRef
    binding: ClusterBinding
    slurmctld: Slurmctld
    accounting: Accounting
    placeholders: PlaceholderKeeper
    mint: TokenMint
    names: UserNames
    keys: IdempotencyKeys = field(default_factory=IdempotencyKeys)
    jobs: JobTable = field(default_factory=JobTable)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    jobs_observed_at: datetime | None = None
    """When the last look at all jobs was asked for; None when the last one failed."""
    nodes_observed_at: datetime | None = None

    listener: "Listener | None" = None
    """The watcher, while this replica watches the cluster."""
    _privileged_known: asyncio.Event = field(default_factory=asyncio.Event)
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def jobs_fresh(self) -> bool:
        """Whether `jobs` is what slurmctld has."""
        return self.listener is not None and _recent(self.jobs_observed_at)

    @property
    def nodes_fresh(self) -> bool:
        """Whether `nodes` is what slurmctld has."""
        return self.listener is not None and _recent(self.nodes_observed_at)

    def observe_jobs(self, records: Iterable[JobRecord], requested_at: datetime) -> None:
        """Take what Slurm answered to a question that was asked at a moment."""
        if self.listener is None:
            return
        observed = tuple(records)
        for record in observed:
            self.jobs.put(record, requested_at)
        self.keys.learn(observed)
        self.listener.on_jobs(observed)

    def observe_node(self, node: NodeRecord | None, name: str) -> None:
        """Take a node's newest record; None when it is gone."""
        if self.listener is None:
            return
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node
        self.listener.holds_nodes()

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something after the answer was given."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def wait_for_own_changes(self) -> None:
        """Wait until what was changed through us is in what was seen: who submits and then lists finds his job."""
        if self._background:
            await asyncio.wait(tuple(self._background))

    async def close(self) -> None:
        """End what was to be done soon."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def owner_name(self, record: JobRecord) -> str:
        """The name of a job's owner. Of one whom only the job's comment names nothing is known."""
        if record.user_id is None:
            return record.user_name
        return self.names.name(record.user_id, record.parsed_comment.user or record.user_name)

    async def user_token(self, user: SlurmUser) -> str:
        """A token of this very user; right after the start it waits a moment until that is safe.

        Raises what `TokenMint.user` does.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_PRIVILEGED_SECONDS):
                await self._privileged_known.wait()
        return self.mint.user(user)

    async def keep_privileged(self) -> None:
        """Keep the mint's reserved names as slurmdbd has them, for ever. A failure leaves those of the last time."""
        while True:
            pause = PRIVILEGED_SECONDS
            try:
                self.mint.reserve_names(await self.accounting.privileged_names(self.mint.operator()))
                self._privileged_known.set()
            except SlurmFailed as error:
                log.warning("privileged_names_not_read", reason=str(error))
                pause = PRIVILEGED_RETRY_SECONDS
            await asyncio.sleep(pause)


@asynccontextmanager
async def open_cluster(
    ref: ClusterRef, binding: ClusterBinding, *, max_placeholders: int = MAX_PLACEHOLDERS
) -> AsyncIterator[Cluster]:
    """A cluster with its connections, and so many placeholders at most."""
    async with Slurmrestd(binding.slurmrestd_url) as slurmrestd:
        slurmctld = Slurmctld(slurmrestd)
        names = UserNames()
        mint = TokenMint(lambda: _key(binding), binding.operator, home=binding.shared_path, names=names)
        records = FutureNodeRecords(slurmrestd, slurmctld.version)
        placeholders = PlaceholderKeeper(records, desired_placeholders(binding, max_placeholders), mint.operator)
        cluster = Cluster(ref, binding, slurmctld, Accounting(slurmrestd, slurmctld.version), placeholders, mint, names)
        try:
            yield cluster
        finally:
            await cluster.close()


def _recent(moment: datetime | None) -> bool:
    return moment is not None and now() - moment < timedelta(seconds=FRESH_SECONDS)


def _key(binding: ClusterBinding) -> bytes:
    try:
        return read_secret(binding.jwt_key)
    except SecretUnavailable as error:
        log.error("jwt_key_not_read", reason=str(error))  # noqa: TRY400 - the text says it all
        raise Unavailable(
            "the cluster's JWT key cannot be read, so nobody can be let in",
            hint="an operator finds the reason in the proxy's log",
        ) from error
