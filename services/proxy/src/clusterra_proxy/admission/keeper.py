"""Keeps a cluster's placeholders in Slurm, so that what some shape could run is admitted while no worker is there.

Without them Slurm refuses a job that asks for a feature no node has, refuses one that none of the nodes it has could
run, and holds those of that kind that wait, so that they lose their place in the queue.

How a loss is noticed: placeholders are `State=FUTURE`, which no list shows but one asked for with `flags=FUTURE`.
That list is long and changes with every worker, so it is read only at the beginning, every `WHOLE_SECONDS`, and
when a sentinel says so. Sentinels are one record or two, read every `LOOK_SECONDS` (3 ms each). slurmctld loses its
records all together (a state folder that is gone) or the newest of them (killed before it saved them), so the one made
last tells; and with each `scontrol reconfigure` or restart it forgets the types of all GPUs, so one with GPUs tells.
A changed catalogue is a changed binding, with which all this begins anew.

It is level-triggered: what is done is the difference to what Slurm has now. One replica does it, the one that watches
the cluster; two would do no harm.
"""

import asyncio
import time
from collections.abc import Callable

import structlog

from clusterra_proxy.admission.placeholders import PlaceholderGroup, diff, is_current, sentinels
from clusterra_proxy.slurmrestd.error_codes import NODE_TABLE_FULL
from clusterra_proxy.slurmrestd.errors import NotFound, Rejected, SlurmFailed, Unavailable
from clusterra_proxy.slurmrestd.future_nodes import FutureNodeRecords

log = structlog.get_logger(__name__)

MAX_PLACEHOLDERS = 640
"""Records that a cluster gets at most, unless the proxy is told otherwise. Slurm's MaxNodeCount must hold them
besides the workers; operators of Slurm on Kubernetes set it to 1024."""
SENTINEL_SECONDS = 1.0
WAIT_POLL_SECONDS = 0.1
FULL_CHECK_SECONDS = 300.0
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0
MAX_UNAVAILABLE_RETRY_SECONDS = 4.0
"""While Slurm does not answer: when it comes back, the types of all GPUs are forgotten."""


class PlaceholderKeeper:
    """The placeholders of one cluster. `token` makes a token of the service user."""

    def __init__(
        self, records: FutureNodeRecords, groups: tuple[PlaceholderGroup, ...], token: Callable[[], str]
    ) -> None:
        self._records = records
        self._groups = groups
        self._token = token

    async def keep(self) -> None:
        """Keep them, for ever. What fails is tried again after growing pauses; the log tells each new reason."""
        full_check_at = 0.0
        retry_seconds = RETRY_SECONDS
        logged_reason = ""
        while True:
            pause = SENTINEL_SECONDS
            try:
                if time.monotonic() >= full_check_at or not await self.intact():
                    await self._repair()
                    full_check_at = time.monotonic() + FULL_CHECK_SECONDS
                if logged_reason:
                    log.info("placeholders_kept_again")
                logged_reason, retry_seconds = "", RETRY_SECONDS
            except SlurmFailed as error:
                if str(error) != logged_reason:
                    log.warning("placeholders_not_kept", reason=str(error), hint=_hint(error))
                logged_reason, full_check_at = str(error), 0.0
                max_retry_seconds = (
                    MAX_UNAVAILABLE_RETRY_SECONDS if isinstance(error, Unavailable) else MAX_RETRY_SECONDS
                )
                pause = min(retry_seconds, max_retry_seconds)
                retry_seconds = min(2 * retry_seconds, MAX_RETRY_SECONDS)
            await asyncio.sleep(pause)

    async def intact(self) -> bool:
        """Whether the sentinels are as they should be. Raises the errors of `clusterra_proxy.slurmrestd.errors`."""
        for name, gres in sentinels(self._groups):
            node = await self._records.get(self._token(), name)
            if node is None or not is_current(node, gres):
                return False
        return True

    async def wait_until_intact(self, seconds: float) -> bool:
        """Wait so long at most until they are; whether they are. Raises the errors of `slurmrestd.errors`."""
        end = time.monotonic() + seconds
        while not await self.intact():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(WAIT_POLL_SECONDS)
        return True

    async def _repair(self) -> None:
        """Do what is between what is wanted and what there is: new ones first, so that nothing is missing meanwhile."""
        todo = diff(self._groups, await self._records.list(self._token()))
        if not todo:
            return
        for nodes, gres in todo.amend:
            await self._records.amend(self._token(), nodes, gres)
        for group, nodes in todo.create:
            await self._records.create(self._token(), group.node_conf(nodes))
            # No line of slurm.conf can say it.
            await self._records.amend(self._token(), nodes, group.worker.gres)
        for nodes in todo.delete:
            await self._records.delete(self._token(), nodes)
        if not await self.intact():
            raise Rejected(
                "Slurm shows other placeholders than it was told to make",
                hint="compare `sinfo --future` with the catalogue, above all the spelling of GPUs",
            )
        log.info(
            "placeholders_mended",
            created=[nodes for _, nodes in todo.create],
            amended=[nodes for nodes, _ in todo.amend],
            deleted=list(todo.delete),
        )


def _hint(error: SlurmFailed) -> str:
    if error.error.code == NODE_TABLE_FULL:
        return "raise MaxNodeCount in slurm.conf, or lower the proxy's CLUSTERRA_PLACEHOLDERS"
    if error.error.kind == "forbidden":
        return "creating nodes takes slurmdbd's AdminLevel=Administrator for the cluster's operator"
    if isinstance(error, NotFound):
        return "creating nodes by REST takes Slurm 25.11 or newer"
    return error.error.hint
