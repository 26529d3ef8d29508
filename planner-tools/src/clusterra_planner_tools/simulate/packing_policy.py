"""The packing policy on a simulated cluster: `planner.packing` and nothing of its own but bookkeeping."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clusterra_scaler.planner.estimates.remaining_time import Remaining, certain, last
from clusterra_scaler.planner.estimates.run_times import RunTimes, Traits
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.pack import pack
from clusterra_scaler.planner.packing.placement_predicate import rejects
from clusterra_scaler.planner.packing.settings import Settings

from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.fleet import Worker
from clusterra_planner_tools.simulate.policies import Orders
from clusterra_planner_tools.simulate.trace import Job

FRESH_SECONDS = 300.0
"""For how long a chance to have ended is good enough."""
Rank = Literal["latest-end", "oldest"]
"""Which workers Slurm fills first: those that are busy longest, or those launched first."""


@dataclass(slots=True)
class _Seen:
    """A worker as it was at a moment."""

    version: int
    at: float
    bin: Bin

    def fresh(self, now: float) -> bool:
        """Whether it can still be gone by. Of what is certain every second counts."""
        return self.at == now or (self.bin.busy.ended is not None and now - self.at <= FRESH_SECONDS)


@dataclass(frozen=True, slots=True)
class _Priced:
    """A job as the packing wants it, and what a new worker for one of its nodes would add."""

    group: Group
    new_usd: float


class Packing:
    """Buys by `pack` and refuses by `refuses`. See policies.Policy."""

    def __init__(
        self, catalogue: Catalogue, run_times: RunTimes, settings: Settings | None = None, rank: Rank = "latest-end"
    ) -> None:
        self._offerings = catalogue.offerings
        self._run_times = run_times
        self._settings = settings or Settings()
        self._rank = rank
        self._priced: dict[int, _Priced] = {}
        self._seen: dict[int, _Seen] = {}
        self.wait_seconds = self._settings.wait_seconds

    def ranked(self, ready: list[Worker], now: float) -> list[Worker]:
        """See Policy."""
        if self._rank == "oldest":
            return ready
        return sorted(ready, key=lambda worker: -self._room(worker, now).busy.mean_seconds)

    def accepts(self, worker: Worker, job: Job, now: float) -> bool:
        """See Policy."""
        priced = self._price(job)
        return not rejects(self._room(worker, now), priced.group, priced.new_usd, self._settings)

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        """See Policy."""
        jobs = {str(job.id): job for job in waiting}
        packing = pack(
            [self._price(job).group for job in waiting],
            [self._room(worker, now) for worker in coming],
            self._offerings,
            self._settings,
        )
        workers = {str(worker.number): worker for worker in coming}
        for purchase in packing.purchases:
            workers[purchase.id] = orders.buy(purchase.offering)
        for placement in packing.placements:
            orders.book(jobs[placement.job_id], [workers[room_id] for room_id in placement.room_ids])

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
            new = cheapest_new(group, self._offerings, self._settings)
            if new is None:
                raise ValueError(f"no shape holds job {job.id}: {job.cpus} CPUs and {job.memory_gib:g} GiB on one node")
            found = self._priced[job.id] = _Priced(group, new[0])
        return found

    def _room(self, worker: Worker, now: float) -> Bin:
        observation = self._seen.get(worker.number)
        if observation is not None and observation.version == worker.version and observation.fresh(now):
            return observation.bin
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
        self._seen[worker.number] = _Seen(worker.version, now, bin_)
        return bin_

    def _busy(self, worker: Worker, now: float) -> Remaining:
        times = self._run_times
        running = [times.remaining(str(job.id), _traits(job), now - start) for start, job in worker.running.values()]
        booked = [_later(self._price(job).group.remaining, worker.ready_at - now) for job in worker.booked.values()]
        return last(running + booked)


def _later(remaining: Remaining, seconds: float) -> Remaining:
    """Of what begins only then. Where nothing is certain, a boot more or less decides nothing."""
    if remaining.ended is not None or seconds <= 0.0:
        return remaining
    return certain(remaining.mean_seconds + seconds)


def _traits(job: Job) -> Traits:
    return Traits(job.user, job.limit_seconds, job.cpus, job.memory_gib)
