"""Goes on with the runs that a gateway left unfinished: because it died, or because Slurm did not answer."""

from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper, Unfinished

from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.workflows.advance import RunWork
from clusterra_gateway.workflows.run_records import RunRecords
from clusterra_gateway.workflows.transitions import has_work

INTERVAL_SECONDS = 5.0
PAGE = 1000
RUN_SECONDS = 60.0
"""A run that takes longer is gone on with in the next round."""
CLUSTERS_AT_A_TIME = 32
BOUNDS = Bounds(CLUSTERS_AT_A_TIME, per_cluster=1, failures_in_a_round=2)

type _Run = tuple[ClusterRef, str]


class RunSweep:
    """All unfinished runs. Every worker goes through them: no run needs a certain one."""

    def __init__(self, records: RunRecords, work: RunWork) -> None:
        self._records = records
        self._work = work

    def sweeper(self) -> Sweeper[_Run]:
        """Goes on with all of them every few seconds, one run of a cluster at a time."""
        failures = (StoreError, Unavailable)
        sweep = Sweep("runs", self.unfinished, self.advance, _place, failures)
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, RUN_SECONDS), BOUNDS)

    async def unfinished(self) -> list[_Run]:
        """The runs that need a gateway. Raises StoreError."""
        runs, cursor = list[_Run](), None
        while True:
            found, cursor = await self._records.unfinished(PAGE, cursor)
            runs += found
            if cursor is None:
                return runs

    async def advance(self, place: _Run) -> None:
        """Go on with a run. Raises Unfinished where it still needs a gateway, StoreError, Unavailable."""
        run = await self._work.advance(*place)
        if run is not None and has_work(run):
            raise Unfinished


def _place(run: _Run) -> Place:
    return Place(run[0].tenant, run[0].cluster, run[1])
