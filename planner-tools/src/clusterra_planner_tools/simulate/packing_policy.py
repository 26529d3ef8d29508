"""The packing policy on a simulated cluster: bookkeeping around `planner.packing`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clusterra_scaler.planner.estimates.remaining_time import Remaining, certain, last
from clusterra_scaler.planner.estimates.run_times import RunTimes, Traits
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.pack import pack
from clusterra_scaler.planner.packing.placement_predicate import rejects, wait_usd
from clusterra_scaler.planner.packing.settings import Settings

from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.fleet import Worker
from clusterra_planner_tools.simulate.policies import Orders
from clusterra_planner_tools.simulate.trace import Job

FRESH_SECONDS = 300.0
"""How long a bin whose end is uncertain may be reused."""
Rank = Literal["latest-end", "oldest"]
"""Which workers Slurm fills first: those that are busy longest, or those launched first."""


@dataclass(slots=True)
class _CachedBin:
    """A worker's bin as it was at a moment."""

    version: int
    at: float
    bin: Bin

    def is_fresh(self, now: float) -> bool:
        """Whether the bin may still be used. Where its end is certain, every second counts."""
        return self.at == now or (self.bin.busy.ended is not None and now - self.at <= FRESH_SECONDS)


@dataclass(frozen=True, slots=True)
class _Priced:
    """A job as a group for the packing, and the most that it may cost on a ready worker, for each of its nodes."""

    group: Group
    most_usd: float


class PackingPolicy:
    """Buys workers by `pack`, and rejects jobs on ready workers by `rejects`. See policies.Policy."""

    def __init__(
        self,
        catalogue: Catalogue,
        run_times: RunTimes,
        settings: Settings | None = None,
        wait_usd_per_hour: float = 0.0,
        rank: Rank = "latest-end",
    ) -> None:
        """`wait_usd_per_hour`: the price of an hour that a job waits for the boot of a new worker."""
        self._wait_usd_per_hour = wait_usd_per_hour
        self._offerings = catalogue.offerings
        self._run_times = run_times
        self._settings = settings or Settings()
        self._rank = rank
        self._priced: dict[int, _Priced] = {}
        self._bins: dict[int, _CachedBin] = {}
        self.batch_seconds = self._settings.batch_seconds

    def ranked(self, ready: list[Worker], now: float) -> list[Worker]:
        """See Policy."""
        if self._rank == "oldest":
            return ready
        return sorted(ready, key=lambda worker: -self._bin(worker, now).busy.mean_seconds)

    def accepts(self, worker: Worker, job: Job, now: float) -> bool:
        """See Policy."""
        priced = self._price(job)
        return not rejects(self._bin(worker, now), priced.group, priced.most_usd, self._settings)

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        """See Policy."""
        jobs = {str(job.id): job for job in waiting}
        packing = pack(
            [self._price(job).group for job in waiting],
            [self._bin(worker, now) for worker in coming],
            self._offerings,
            self._settings,
        )
        workers = {str(worker.number): worker for worker in coming}
        for purchase in packing.purchases:
            workers[purchase.id] = orders.buy(purchase.offering)
        for placement in packing.placements:
            orders.book(jobs[placement.job_id], [workers[bin_id] for bin_id in placement.bin_ids])

    def began(self, job: Job, now: float) -> None:
        """See Policy."""
        self._run_times.advance(now)
        self._run_times.begin(str(job.id), _traits(job), now)

    def ended(self, job: Job, now: float) -> None:
        """See Policy."""
        self._run_times.advance(now)
        self._run_times.end(str(job.id), now)
        self._priced.pop(job.id, None)

    def abandoned(self, job: Job) -> None:
        """See Policy."""
        self._run_times.abandon(str(job.id))
        self._priced.pop(job.id, None)

    def _price(self, job: Job) -> _Priced:
        found = self._priced.get(job.id)
        if found is None:
            group = Group(
                job_ids=(str(job.id),),
                cpus=job.cpus,
                memory_gib=job.memory_gib,
                remaining=self._run_times.remaining(str(job.id), _traits(job), 0.0),
                nodes=job.nodes,
                exclusive=job.exclusive,
            )
            new = cheapest_new_worker(group, self._offerings, self._settings)
            if new is None:
                raise ValueError(f"no shape holds job {job.id}: {job.cpus} CPUs and {job.memory_gib:g} GiB on one node")
            new_usd, offering = new
            most_usd = new_usd + wait_usd(self._wait_usd_per_hour, offering.boot_seconds)
            found = self._priced[job.id] = _Priced(group, most_usd)
        return found

    def _bin(self, worker: Worker, now: float) -> Bin:
        cached = self._bins.get(worker.number)
        if cached is not None and cached.version == worker.version and cached.is_fresh(now):
            return cached.bin
        bin_ = Bin(
            id=str(worker.number),
            offering=worker.offering,
            cpus=worker.cpus,
            memory_gib=worker.memory_gib,
            gpus=0,
            empty=worker.empty,
            exclusive=worker.exclusive,
            busy=self._busy(worker, now),
        )
        self._bins[worker.number] = _CachedBin(worker.version, now, bin_)
        return bin_

    def _busy(self, worker: Worker, now: float) -> Remaining:
        times = self._run_times
        running = [times.remaining(str(job.id), _traits(job), now - start) for start, job in worker.running.values()]
        booked = [_delayed(self._price(job).group.remaining, worker.ready_at - now) for job in worker.booked.values()]
        return last(running + booked)


def _delayed(remaining: Remaining, seconds: float) -> Remaining:
    """The remaining time of a job that begins in `seconds`. Where the end is uncertain the delay is neglected."""
    if remaining.ended is not None or seconds <= 0.0:
        return remaining
    return certain(remaining.mean_seconds + seconds)


def _traits(job: Job) -> Traits:
    return Traits(job.user, job.limit_seconds, job.cpus, job.memory_gib)
