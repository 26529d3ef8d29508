"""Keeps a cluster's placeholders in Slurm, so that Slurm admits a job that some shape could run without any worker.

Without placeholders, Slurm rejects a job that requests a feature of no node or that no node could run. It also holds
such jobs that already wait, and they lose their place in the queue.

Detection of lost records: placeholders are `State=FUTURE`, which are listed only with `flags=FUTURE`. That list is
long and changes with every worker. So it is read only at the start, every `FULL_CHECK_SECONDS`, and when a sentinel
is missing or wrong. Sentinels are one or two records, read every second at most (3 ms each). slurmctld loses
either all records (a deleted state directory) or the newest ones (killed before it saved them), so the record created
last is a sentinel. Each `scontrol reconfigure` or restart forgets the types of all GPUs, so a record with GPUs is
another. All of these count as changes of nodes: while Slurm says that its list of nodes is not modified, the sentinels
need not be read. A changed catalogue is a changed binding, which starts a new keeper.

The keeper is level-triggered: it applies the difference between the desired records and those that Slurm has now. Only
the leading replica runs it; a second one would do no harm.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import structlog
from prometheus_client import Counter

from clusterra_proxy.admission.placeholders import PlaceholderGroup, diff, is_current, sentinels
from clusterra_proxy.slurmrestd.error_codes import NODE_TABLE_FULL
from clusterra_proxy.slurmrestd.errors import NotFound, Rejected, SlurmFailed, Unavailable
from clusterra_proxy.slurmrestd.future_nodes import FutureNodeRecords

log = structlog.get_logger(__name__)

MAX_PLACEHOLDERS = 640
"""Default limit of a cluster's placeholder records. Slurm's MaxNodeCount must allow them in addition to the workers;
Kubernetes operators for Slurm set it to 1024."""
SENTINEL_SECONDS = 1.0
"""Shortest pause between two checks of the sentinels."""
WAIT_POLL_SECONDS = 0.1
"""Pause between two checks while a submit waits for missing placeholders."""
UNCHANGED_CHECK_SECONDS = 30.0
"""Longest pause between two checks of the sentinels while no node changes."""
FULL_CHECK_SECONDS = 300.0
"""Pause between two checks of all records."""
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0
MAX_UNAVAILABLE_RETRY_SECONDS = 4.0
"""Longest pause while Slurm does not respond. Shorter, because a restarted slurmctld has forgotten all GPU types."""

FAILURES = Counter(
    "clusterra_placeholder_failures_total", "Failed attempts to keep a cluster's placeholders, by kind", ("kind",)
)


class PlaceholderKeeper:
    """Keeps the placeholders of one cluster. `token` returns a token of the cluster's operator (its service user)."""

    def __init__(
        self, records: FutureNodeRecords, groups: tuple[PlaceholderGroup, ...], token: Callable[[], str]
    ) -> None:
        self._records = records
        self._groups = groups
        self._token = token

    async def keep(
        self,
        check_seconds: Callable[[], float] = lambda: SENTINEL_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        nodes_version: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Keep the placeholders, forever. A failure is retried with backoff; each new reason is logged.

        `check_seconds` returns the pause until the next check, which is never below `SENTINEL_SECONDS`. `sleep` waits
        for that pause, and for longer in a replica that has more work than CPU. `nodes_version` returns another number
        once any node has changed; None if that is not known.
        """
        checked_version: int | None = None
        checked_at = 0.0
        full_check_at = 0.0
        retry_seconds = RETRY_SECONDS
        logged_reason = ""
        while True:
            pause = max(SENTINEL_SECONDS, check_seconds())
            try:
                now, version = time.monotonic(), nodes_version()
                due = version is None or version != checked_version or now - checked_at >= UNCHANGED_CHECK_SECONDS
                if due:
                    checked_at, checked_version = now, version
                if now >= full_check_at or (due and not await self.intact()):
                    await self._repair()
                    full_check_at = time.monotonic() + FULL_CHECK_SECONDS
                if logged_reason:
                    log.info("placeholders_kept_again")
                logged_reason, retry_seconds = "", RETRY_SECONDS
            except SlurmFailed as error:
                FAILURES.labels(error.error.kind).inc()
                if str(error) != logged_reason:
                    log.warning("placeholders_not_kept", reason=str(error), hint=_hint(error))
                logged_reason, full_check_at = str(error), 0.0
                max_retry_seconds = (
                    MAX_UNAVAILABLE_RETRY_SECONDS if isinstance(error, Unavailable) else MAX_RETRY_SECONDS
                )
                pause = min(retry_seconds, max_retry_seconds) * random.uniform(0.5, 1.0)  # noqa: S311
                retry_seconds = min(2 * retry_seconds, MAX_RETRY_SECONDS)
            await sleep(pause)

    async def intact(self) -> bool:
        """Return whether all sentinels are correct. Raises the errors of `clusterra_proxy.slurmrestd.errors`."""
        for name, gres in sentinels(self._groups):
            node = await self._records.get(self._token(), name)
            if node is None or not is_current(node, gres):
                return False
        return True

    async def wait_until_intact(self, seconds: float) -> bool:
        """Wait until all sentinels are correct; False after `seconds`. Raises the errors of `slurmrestd.errors`."""
        end = time.monotonic() + seconds
        while not await self.intact():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(WAIT_POLL_SECONDS)
        return True

    async def _repair(self) -> None:
        """Apply the difference to the desired records: create before deleting, so that none is missing in between."""
        difference = diff(self._groups, await self._records.list(self._token()))
        if not difference:
            return
        for nodes, gres in difference.amend:
            await self._records.amend(self._token(), nodes, gres)
        for group, nodes in difference.create:
            await self._records.create(self._token(), group.node_conf(nodes))
            # A slurm.conf line cannot set the Extra.
            await self._records.amend(self._token(), nodes, group.worker.gres)
        for nodes in difference.delete:
            await self._records.delete(self._token(), nodes)
        if not await self.intact():
            raise Rejected(
                "the placeholders in Slurm differ from those that were created",
                hint="compare `sinfo --future` with the catalogue, above all the names of GPU types",
            )
        log.info(
            "placeholders_mended",
            created=[nodes for _, nodes in difference.create],
            amended=[nodes for nodes, _ in difference.amend],
            deleted=list(difference.delete),
        )


def _hint(error: SlurmFailed) -> str:
    if error.error.code == NODE_TABLE_FULL:
        return "increase MaxNodeCount in slurm.conf, or lower the proxy's CLUSTERRA_PLACEHOLDERS"
    if error.error.kind == "forbidden":
        return "creating nodes requires AdminLevel=Administrator in slurmdbd for the cluster's operator"
    if isinstance(error, NotFound):
        return "creating nodes by REST requires Slurm 25.11 or newer"
    return error.error.hint
