"""Goes on with the runs that a gateway left unfinished: because it died, or because Slurm did not answer."""

import asyncio
import random
from collections import defaultdict

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.store import StoreError
from pydantic import ValidationError

from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.workflows.advance import RunWork
from clusterra_gateway.workflows.run_records import RunRecords
from clusterra_gateway.workflows.transitions import has_work

log = structlog.get_logger()

INTERVAL_SECONDS = 5.0
PAGE = 1000
CLUSTERS_AT_A_TIME = 32
SILENT_AT_A_TIME = 16
"""So many of them may be clusters that did not answer in their last round."""
RUN_SECONDS = 60.0
"""A run that takes longer is gone on with in the next round."""
UNANSWERED = 2
"""After so many runs that could not be finished, the other runs of their cluster wait for the next round."""


class RunSweep:
    """Goes through all unfinished runs, again and again. Every gateway does so: no run needs a certain one.

    Each cluster has rounds of its own: one whose Slurm does not answer holds up no other cluster's runs.
    """

    def __init__(self, records: RunRecords, work: RunWork) -> None:
        self._records = records
        self._work = work
        self._under_way: set[ClusterRef] = set()
        self._silent: set[ClusterRef] = set()
        """The clusters that left a run unanswered in their last round: each holds up its place for a minute."""

    async def run(self) -> None:
        """Look for unfinished runs every few seconds, until cancelled."""
        async with asyncio.TaskGroup() as rounds:
            while True:
                await asyncio.sleep(INTERVAL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
                try:
                    found = await self._unfinished()
                except StoreError as error:
                    log.warning("runs_not_read", reason=str(error))
                    continue
                idle = [ref for ref in found if ref not in self._under_way]
                random.shuffle(idle)
                self._silent.intersection_update(found)
                idle.sort(key=self._silent.__contains__)
                for ref in idle[: CLUSTERS_AT_A_TIME - len(self._under_way)]:
                    if ref in self._silent and len(self._silent & self._under_way) >= SILENT_AT_A_TIME:
                        break
                    self._under_way.add(ref)
                    rounds.create_task(self._sweep(ref, found[ref]))

    async def _unfinished(self) -> dict[ClusterRef, list[str]]:
        by_cluster, cursor = defaultdict[ClusterRef, list[str]](list), None
        while True:
            found, cursor = await self._records.unfinished(PAGE, cursor)
            for ref, run_id in found:
                by_cluster[ref].append(run_id)
            if cursor is None:
                return by_cluster

    async def _sweep(self, ref: ClusterRef, runs: list[str]) -> None:
        """Go on with the runs of one cluster in a random order, so that none is always the last."""
        random.shuffle(runs)
        unanswered = 0
        try:
            for run_id in runs:
                unanswered += not await self._finished(ref, run_id)
                if unanswered >= UNANSWERED:
                    return
        finally:
            self._under_way.remove(ref)
            (self._silent.add if unanswered else self._silent.discard)(ref)

    async def _finished(self, ref: ClusterRef, run_id: str) -> bool:
        """Whether a run needs no gateway any more, after it was gone on with."""
        try:
            async with asyncio.timeout(RUN_SECONDS):
                run = await self._work.advance(ref, run_id)
        except (StoreError, Unavailable, TimeoutError) as error:
            log.warning("run_not_advanced", run_id=run_id, reason=str(error) or type(error).__name__)
            return False
        except ValidationError as error:
            # Not the error's text: it repeats the record. A newer release may read it.
            log.error("run_unreadable", run_id=run_id, problems=error.error_count())  # noqa: TRY400
            return True
        return run is None or not has_work(run)
