"""One served cluster: its connections to Slurm and the last observation of its jobs and nodes.

A replica holds one `Cluster` per binding. The request handlers and the watcher share it: the watcher keeps the
observation current, and the handlers answer from it while it is fresh.
"""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm import FindKey, FoundKey
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, Outbound
from clusterra_runtime.secrets.reader import Secrets

from clusterra_proxy.admission.keeper import MAX_PLACEHOLDERS, PlaceholderKeeper
from clusterra_proxy.admission.placeholders import desired_placeholders
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.cluster.jwt_key import followed_jwt_key, last_jwt_key
from clusterra_proxy.cluster.member_accounts import MemberAccounts
from clusterra_proxy.cluster.recent_jobs import RecentReads
from clusterra_proxy.cluster.submitting import Submitting
from clusterra_proxy.cluster.task_bound import UnreadableListener
from clusterra_proxy.cluster.user_turns import UserTurns, user_turns
from clusterra_proxy.slurmrestd.accounting import Accounting
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import SlurmFailed
from clusterra_proxy.slurmrestd.future_nodes import FutureNodeRecords
from clusterra_proxy.slurmrestd.reading.tally import UnreadableRecords
from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld
from clusterra_proxy.slurmrestd.tokens import SET_ASIDE, TokenMint

log = structlog.get_logger(__name__)

FRESH_SECONDS = 2.0
"""Requests are answered from an observation of at most this age, without asking Slurm again."""
MAX_POLL = timedelta(seconds=30)
"""How much older an observation may be from which jobs are listed, where a poll takes long."""
_POLL_SECONDS, _POLLS = 0.05, 80
"""A request that needs the watcher's next poll waits 4 s for it."""
PRIVILEGED_SECONDS = 60.0
"""How often the privileged names are read from slurmdbd."""
PRIVILEGED_RETRY_SECONDS, LONGEST_PRIVILEGED_RETRY_SECONDS = 1.0, 10.0
FIRST_PRIVILEGED_SECONDS = 2.0
"""How long a request waits for the first read of the privileged names."""
REQUESTS_AT_ONCE = 3
"""How many requests of one user, which are no submits, are answered at a time: slurmrestd has four threads for all."""


class Listener(Protocol):
    """Receives observations."""

    def on_jobs(self, records: tuple[JobRecord, ...]) -> None:
        """Handle job records that were read."""

    def on_nodes(self) -> None:
        """Handle a possible change of the nodes."""


@dataclass
class Cluster:
    """One served cluster. Only the watcher, or a request while the watcher runs, changes the observation."""

    ref: ClusterRef
    binding: ClusterBinding
    slurmctld: Slurmctld
    accounting: Accounting
    placeholders: PlaceholderKeeper
    mint: TokenMint
    condition: Condition
    member_accounts: MemberAccounts = field(init=False)
    submitting: Submitting = field(default_factory=Submitting)
    turns: UserTurns = field(default_factory=lambda: user_turns(REQUESTS_AT_ONCE, "requests"))
    """Of all users' requests but submits, which have turns of their own."""
    jobs: JobTable = field(default_factory=JobTable)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    jobs_observed_at: datetime | None = None
    """When the last poll of all jobs was sent; None when the last poll failed."""
    nodes_observed_at: datetime | None = None
    """When the last poll of all nodes was sent; None when the last poll failed."""
    nodes_version: int = 0
    """Counts the polls that found any node record changed, a placeholder's too, or that failed."""
    unidentified_jobs: int = 0
    """The job records of the last list that were left out, because their ids cannot be read."""
    unidentified_nodes: int = 0
    """The node records of the last list that were left out, because their names cannot be read."""
    listener: Listener | None = None
    """The watcher, while this replica watches the cluster."""
    on_unreadable: UnreadableListener = lambda _kind, _records: None
    mails: bool = False
    """Whether mails about jobs are sent."""
    recent: RecentReads = field(init=False)
    alone_until: datetime | None = None
    """Until when this replica does not ask the watching one, because none answered."""
    find_watched: Callable[[FindKey], Awaitable[FoundKey | None]] | None = None
    """Asks the watching replica for the job of a key; None while no requests are served."""
    changed_at: datetime | None = None
    """When a job was last changed through this replica."""
    _poll_took: timedelta = timedelta()
    _privileged_known: asyncio.Event = field(default_factory=asyncio.Event)
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Prepare to list jobs while this replica does not watch, and to keep the accounts of members."""
        self.member_accounts = MemberAccounts(self.ref, self.accounting, self.mint.operator_token)
        self.recent = RecentReads.of(self.slurmctld, self.accounting, self.mint.operator_token)

    @property
    def jobs_fresh(self) -> bool:
        """Whether `jobs` is a recent observation."""
        return self.listener is not None and _recent(self.jobs_observed_at)

    @property
    def jobs_listable(self) -> bool:
        """Whether `jobs` is as recent as the polls of this cluster allow: those of a large one take seconds."""
        oldest = timedelta(seconds=FRESH_SECONDS) + min(2 * self._poll_took, MAX_POLL)
        return self.listener is not None and _recent(self.jobs_observed_at, oldest)

    @property
    def changed_since_poll(self) -> bool:
        """Whether a job was changed through this replica after the last poll was sent."""
        polled_at = self.jobs_observed_at
        return self.changed_at is not None and (polled_at is None or polled_at < self.changed_at)

    @property
    def nodes_fresh(self) -> bool:
        """Whether `nodes` is a recent observation."""
        return self.listener is not None and _recent(self.nodes_observed_at)

    @property
    def unreadable_jobs(self) -> int:
        """The number of jobs of which something cannot be read."""
        return self.jobs.unreadable + self.unidentified_jobs

    @property
    def unreadable_nodes(self) -> int:
        """The number of nodes of which something cannot be read."""
        return sum(bool(node.unreadable) for node in self.nodes.values()) + self.unidentified_nodes

    def tell_readable(self) -> None:
        """Tell whether all of Slurm's records can be read."""
        jobs, nodes = self.unreadable_jobs, self.unreadable_nodes
        if jobs or nodes:
            self.condition.degrade(
                "unreadable_records",
                f"{jobs} job records and {nodes} node records of Slurm cannot be read: these jobs get no workers, and "
                "these nodes count as busy; the proxy's log names them",
            )
        else:
            self.condition.recover("unreadable_records")

    def observe_jobs(self, records: Iterable[JobRecord], requested_at: datetime) -> None:
        """Add Slurm's answer to a request sent at `requested_at` to the observation, while the watcher runs."""
        if self.listener is None:
            return
        observed = tuple(records)
        for record in observed:
            self.jobs.put(record, requested_at)
        self.listener.on_jobs(observed)

    def jobs_polled(self, requested_at: datetime) -> None:
        """Note that `jobs` is complete as of a poll that was sent at `requested_at`."""
        self.jobs_observed_at = requested_at
        self._poll_took = now() - requested_at

    async def wait_for_poll(self, asked_at: datetime) -> bool:
        """Wait for a poll of all jobs that was sent after `asked_at`. Returns False when none succeeds in time."""
        for _ in range(_POLLS):
            if self.jobs_observed_at is not None and self.jobs_observed_at >= asked_at:
                return self.listener is not None
            await asyncio.sleep(_POLL_SECONDS)
        return False

    def observe_node(self, node: NodeRecord | None, name: str) -> None:
        """Add a node's newest record to the observation, while the watcher runs; None removes the node."""
        if self.listener is None:
            return
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node
        self.listener.on_nodes()

    def follow_own_change(self, work: Coroutine[Any, Any, None]) -> None:
        """Note that a job was changed, and observe the change after the reply is sent."""
        self.changed_at = now()
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def wait_for_own_changes(self) -> None:
        """Wait until changes made through this replica are observed, so that a user's list shows their own submit."""
        if self._background:
            await asyncio.wait(tuple(self._background))

    async def close(self) -> None:
        """Cancel all background work."""
        await asyncio.gather(self.recent.close(), self.member_accounts.close())
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.slurmctld.close()

    def owner_name(self, record: JobRecord) -> str:
        """Return the name of a job's owner; without a uid, the name in the record."""
        if record.user_id is None:
            return record.user_name
        return self.mint.names.name(record.user_id, record.parsed_comment.user or record.user_name)

    async def user_token(self, user: SlurmUser) -> str:
        """Return a token of exactly this user. Waits briefly for the first read of the privileged names.

        Raises the errors of `TokenMint.user_token`.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_PRIVILEGED_SECONDS):
                await self._privileged_known.wait()
        return self.mint.user_token(user)

    async def slurm_identity(self) -> str:
        """Ask Slurm who it is; equal for clusters that are bound to the same one. Raises SlurmFailed."""
        names = await self.slurmctld.names(self.mint.identifying_token())
        return hashlib.sha256("\0".join((self.mint.key_hash(), *names)).encode()).hexdigest()

    def set_aside(self) -> None:
        """Serve nobody: Slurm belongs to another tenant."""
        self.mint.set_aside = True
        self.condition.degrade("slurm_of_another_tenant", f"{SET_ASIDE}: give this cluster a Slurm of its own")

    def take_back(self) -> None:
        """Serve this cluster, or serve it again."""
        self.mint.set_aside = False
        self.condition.recover("slurm_of_another_tenant")

    async def keep_privileged(self) -> None:
        """Keep the mint's reserved names as slurmdbd has them, forever. A failed read leaves the previous names."""
        backoff = Backoff(PRIVILEGED_RETRY_SECONDS, LONGEST_PRIVILEGED_RETRY_SECONDS)
        while True:
            try:
                self.mint.reserve_names(await self.accounting.privileged_names(self.mint.operator_token()))
            except SlurmFailed as error:
                log.warning("privileged_names_not_read", reason=str(error))
                await backoff.pause()
                continue
            self._privileged_known.set()
            backoff.succeeded()
            # Clusters that were opened together must not read at the same time.
            await asyncio.sleep(PRIVILEGED_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311


@asynccontextmanager
async def open_cluster(
    ref: ClusterRef,
    binding: ClusterBinding,
    secrets: Secrets,
    condition: Condition,
    *,
    max_placeholders: int = MAX_PLACEHOLDERS,
    outbound: Outbound = DEFAULT_OUTBOUND,
    mails: bool = False,
) -> AsyncIterator[Cluster]:
    """Open a cluster's connections, and follow its JWT key; close them when the block ends."""
    unreadable = UnreadableRecords(ref)
    slurmrestd_client = Slurmrestd(
        binding.slurmrestd_url, on_unreadable=unreadable.note, outbound=outbound, tenant=ref.tenant
    )
    async with slurmrestd_client as slurmrestd, followed_jwt_key(secrets, binding):
        slurmctld = Slurmctld(slurmrestd)
        mint = TokenMint(lambda: last_jwt_key(secrets, binding), binding.operator, shared_path=binding.shared_path)
        cluster = Cluster(
            ref,
            binding,
            slurmctld,
            Accounting(slurmrestd, slurmctld.version),
            PlaceholderKeeper(
                FutureNodeRecords(slurmrestd, slurmctld.version),
                desired_placeholders(binding, max_placeholders),
                mint.operator_token,
            ),
            mint,
            condition,
            on_unreadable=unreadable.note,
            mails=mails,
        )
        try:
            yield cluster
        finally:
            await cluster.close()


def _recent(moment: datetime | None, oldest: timedelta = timedelta(seconds=FRESH_SECONDS)) -> bool:
    return moment is not None and now() - moment < oldest
