"""Goes on with the runs that a gateway left unfinished: because it died, or because Slurm did not answer."""

import asyncio
import random

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.store import StoreError
from pydantic import ValidationError

from clusterra_gateway.runs.advance import RunWork
from clusterra_gateway.runs.run_records import RunBusy, RunRecords

log = structlog.get_logger()

INTERVAL_SECONDS = 5.0
PAGE = 100
AT_A_TIME = 4
RUN_SECONDS = 60.0
"""A run that takes longer is gone on with in the next round, so that none holds up the others."""


class RunSweep:
    """Goes through all unfinished runs, again and again. Every gateway does so: no run needs a certain one."""

    def __init__(self, records: RunRecords, work: RunWork) -> None:
        self._records = records
        self._work = work

    async def run(self) -> None:
        """Sweep every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                await self.sweep()
            except StoreError as error:
                log.warning("runs_not_read", reason=str(error))

    async def sweep(self) -> None:
        """Go on with each unfinished run once. Raises StoreError when they cannot be listed."""
        turns, cursor = asyncio.Semaphore(AT_A_TIME), None
        while True:
            found, cursor = await self._records.unfinished(PAGE, cursor)
            await asyncio.gather(*(self._advance(ref, run_id, turns) for ref, run_id in found))
            if cursor is None:
                return

    async def _advance(self, ref: ClusterRef, run_id: str, turns: asyncio.Semaphore) -> None:
        async with turns:
            try:
                async with asyncio.timeout(RUN_SECONDS):
                    await self._work.advance(ref, run_id)
            except (StoreError, RunBusy, TimeoutError) as error:
                log.warning("run_not_advanced", run_id=run_id, reason=str(error) or type(error).__name__)
            except ValidationError as error:
                # Not the error's text: it repeats the record. A newer release may read it.
                log.error("run_unreadable", run_id=run_id, problems=error.error_count())  # noqa: TRY400
