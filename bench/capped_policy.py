"""The packing policy on a simulated cluster whose policy caps workers and USD per hour.

The head-job reservation is left out: the traces end, so that every job has its turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.fleet import Worker
from clusterra_planner_tools.simulate.packing_policy import PackingPolicy
from clusterra_planner_tools.simulate.policies import Orders
from clusterra_planner_tools.simulate.result import Result
from clusterra_planner_tools.simulate.trace import Job
from clusterra_scaler.planner.estimates.run_times import RunTimes
from clusterra_scaler.planner.packing.limits import Limits
from clusterra_scaler.planner.packing.pack import pack
from clusterra_scaler.planner.packing.settings import Settings

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Caps:
    """The most workers, and the most USD per hour."""

    workers: int
    usd_per_hour: float

    @classmethod
    def below_peak(cls, result: Result, jobs: Sequence[Job], catalogue: Catalogue) -> "Caps":
        """Three quarters of what a run without caps had at its peak, but enough for each job."""
        changes: list[tuple[float, int, float]] = []
        for worker in result.workers:
            usd = catalogue[worker.shape].usd_per_second * _HOUR
            changes += ((worker.launch, 1, usd), (worker.release, -1, -usd))
        workers = most_workers = 0
        usd_per_hour = most_usd = 0.0
        for _, more, usd in sorted(changes):
            workers, usd_per_hour = workers + more, usd_per_hour + usd
            most_workers, most_usd = max(most_workers, workers), max(most_usd, usd_per_hour)
        dearest = max(job.nodes * catalogue.fitting(job)[0].usd_per_second * _HOUR for job in jobs)
        return cls(max(3 * most_workers // 4, *(job.nodes for job in jobs)), max(0.75 * most_usd, dearest))


class CappedPolicy(PackingPolicy):
    """Buys within caps. A job that the caps leave without a worker is accepted wherever it fits, as by the scaler."""

    def __init__(
        self, catalogue: Catalogue, run_times: RunTimes, settings: Settings, wait_usd_per_hour: float, caps: Caps
    ) -> None:
        super().__init__(catalogue, run_times, settings, wait_usd_per_hour)
        self._caps = caps
        self._fleet: list[Worker] = []
        self._unaffordable: frozenset[str] = frozenset()

    def accepts(self, worker: Worker, job: Job, now: float) -> bool:
        return str(job.id) in self._unaffordable or super().accepts(worker, job, now)

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        self._fleet = [worker for worker in self._fleet if worker.release is None]
        jobs = {str(job.id): job for job in waiting}
        packing = pack(
            [replace(self._price(job).group, owner=job.user) for job in waiting],
            [self._bin(worker, now) for worker in coming],
            self._offerings,
            self._settings,
            Limits(self._caps.workers, usd_per_hour=self._caps.usd_per_hour).after(
                [worker.offering for worker in self._fleet]
            ),
        )
        workers = {str(worker.number): worker for worker in coming}
        for purchase in packing.purchases:
            workers[purchase.id] = orders.buy(purchase.offering)
            self._fleet.append(workers[purchase.id])
        for placement in packing.placements:
            orders.book(jobs[placement.job_id], [workers[bin_id] for bin_id in placement.bin_ids])
        self._unaffordable = frozenset(packing.unaffordable)
