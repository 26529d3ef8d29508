"""A cluster on a virtual clock: jobs of a trace, workers that boot and fail, and Slurm, which places the jobs."""

import heapq
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from clusterra_scaler.planner.packing.items import Offering

from clusterra_planner_tools.simulate.fleet import Worker
from clusterra_planner_tools.simulate.keep_alive import FixedKeepAlive, KeepAlivePolicy
from clusterra_planner_tools.simulate.policies import Policy
from clusterra_planner_tools.simulate.result import JobRun, Part, Result, WorkerRun
from clusterra_planner_tools.simulate.trace import Job

_DAY = 86400.0
_BOOTS_UNTIL_GIVEN_UP = 3.0


@dataclass(frozen=True, slots=True)
class Failures:
    """Random failures of workers."""

    boot_share: float = 0.0
    """The share of launched workers that never register. Each is paid for three boot times and then given up."""
    loss_share: float = 0.0
    """The share of workers that are lost within a day of registering. Their jobs start again."""
    seed: int = 0


@dataclass(slots=True, eq=False)
class _Run:
    job: Job
    workers: Sequence[Worker]
    start: float
    stopped: bool = False


class _Kind(IntEnum):
    """The kinds of events, in the order in which events of the same moment happen."""

    END = 0
    RECHECK = 1
    SUBMIT = 2
    ORDER = 3
    GIVE_UP = 4
    LOSS = 5


class World:
    """The simulated cluster. Jobs that no shape holds must be left out."""

    def __init__(
        self,
        jobs: Iterable[Job],
        policy: Policy,
        keep_alive: KeepAlivePolicy | None = None,
        failures: Failures | None = None,
    ) -> None:
        """Without `keep_alive`, a worker is released as soon as it is idle."""
        self._policy = policy
        self._keep_alive = keep_alive or FixedKeepAlive(0.0)
        self._kept_until: dict[int, float] = {}
        self._failures = failures or Failures()
        self._chance = random.Random(self._failures.seed)  # noqa: S311 - a simulation
        self._events: list[tuple[float, _Kind, int, Job | _Run | Worker | None]] = []
        self._pushed = 0
        self._now = 0.0
        self._pending: dict[int, Job] = {}
        self._booked: dict[int, Sequence[Worker]] = {}
        self._runs: dict[int, _Run] = {}
        self._workers: list[Worker] = []
        self._open: dict[int, Worker] = {}
        self._window_open = False
        self._ended: list[JobRun] = []
        for job in jobs:
            self._push(job.submit, _Kind.SUBMIT, job)

    def run(self, progress: Callable[[int], None] = lambda ended: None) -> Result:
        """Run until the last job has ended and the last worker is released.

        `progress` is called with the number of ended jobs.
        """
        while self._events:
            self._now, kind, _, subject = heapq.heappop(self._events)
            self._handle(kind, subject)
            # React once to all events of a kind that happen at the same moment.
            if self._events and self._events[0][:2] == (self._now, kind):
                continue
            self._react(window_closed=kind is _Kind.ORDER)
            progress(len(self._ended))
        return Result(
            jobs=tuple(self._ended),
            workers=tuple(
                WorkerRun(
                    id=worker.number,
                    shape=worker.offering.shape,
                    launch=worker.launch,
                    release=self._now if worker.release is None else worker.release,
                )
                for worker in self._workers
            ),
        )

    def buy(self, offering: Offering) -> Worker:
        """See policies.Orders."""
        fails = self._chance.random() < self._failures.boot_share
        worker = Worker(len(self._workers), offering, self._now, fails)
        self._workers.append(worker)
        self._open[worker.number] = worker
        if fails:
            self._push(self._now + _BOOTS_UNTIL_GIVEN_UP * offering.boot_seconds, _Kind.GIVE_UP, worker)
            return worker
        self._push(worker.ready_at, _Kind.RECHECK, worker)
        if self._chance.random() < self._failures.loss_share:
            self._push(worker.ready_at + self._chance.uniform(0.0, _DAY), _Kind.LOSS, worker)
        return worker

    def book(self, job: Job, workers: Sequence[Worker]) -> None:
        """See policies.Orders."""
        for worker in workers:
            worker.book(job)
            self._end_idle_gap(worker)
        self._booked[job.id] = workers

    def _push(self, at: float, kind: _Kind, subject: Job | _Run | Worker | None) -> None:
        self._pushed += 1
        heapq.heappush(self._events, (at, kind, self._pushed, subject))

    def _handle(self, kind: _Kind, subject: Job | _Run | Worker | None) -> None:
        match subject:
            case _Run() if not subject.stopped:
                self._end(subject)
            case Job():
                self._pending[subject.id] = subject
            case Worker() if kind in (_Kind.GIVE_UP, _Kind.LOSS) and subject.release is None:
                self._lose(subject)
        if kind is _Kind.ORDER:
            self._window_open = False

    def _react(self, window_closed: bool) -> None:
        if self._pending:
            self._place()
        waiting = [job for job in self._pending.values() if job.id not in self._booked]
        if waiting and (window_closed or self._policy.batch_seconds == 0):
            booked = [job for job in self._pending.values() if job.id in self._booked]
            coming = [worker for worker in self._open.values() if not worker.ready(self._now)]
            before = len(self._workers)
            self._policy.order(waiting, booked, coming, self, self._now)
            for worker in self._workers[before:]:
                self._keep_alive.bought(worker, min((job.submit for job in worker.booked.values()), default=self._now))
        elif waiting and not self._window_open:
            self._window_open = True
            self._push(self._now + self._policy.batch_seconds, _Kind.ORDER, None)
        self._release_idle()

    def _place(self) -> None:
        """Place jobs as Slurm does: the oldest first, each on the first ready workers where it fits and is accepted."""
        now, policy = self._now, self._policy
        pending = list(self._pending.values())
        ready = [each for each in self._open.values() if each.ready(now) and any(map(each.fits, pending))]
        if ready:
            ready = policy.ranked(ready, now)
        for job in pending:
            own = self._booked.get(job.id, ())
            if own and all(worker.ready(now) for worker in own):
                self._start(job, own)
                continue
            found: list[Worker] = []
            for worker in ready:
                if worker.fits(job) and worker not in own and policy.accepts(worker, job, now):
                    found.append(worker)
                    if len(found) == job.nodes:
                        self._start(job, found)
                        break

    def _start(self, job: Job, workers: Sequence[Worker]) -> None:
        for worker in self._booked.pop(job.id, ()):
            worker.unbook(job, self._now)
        for worker in workers:
            worker.start(job, self._now)
            self._end_idle_gap(worker)
        del self._pending[job.id]
        run = self._runs[job.id] = _Run(job, workers, self._now)
        self._policy.began(job, self._now)
        self._push(self._now + job.run_seconds, _Kind.END, run)

    def _end(self, run: _Run) -> None:
        job = run.job
        del self._runs[job.id]
        for worker in run.workers:
            worker.end(job, self._now)
        self._policy.ended(job, self._now)
        self._ended.append(
            JobRun(
                id=job.id,
                submit=job.submit,
                start=run.start,
                end=self._now,
                parts=tuple(
                    Part(worker=worker.number, cpus=job.cpus, memory_gib=job.memory_gib) for worker in run.workers
                ),
            )
        )

    def _lose(self, worker: Worker) -> None:
        """Remove a worker. Its running jobs are requeued, and booked jobs lose their bookings."""
        for job in list(worker.booked.values()):
            for each in self._booked.pop(job.id):
                each.unbook(job, self._now)
        for _, job in list(worker.running.values()):
            run = self._runs.pop(job.id)
            run.stopped = True
            for each in run.workers:
                each.end(job, self._now)
            self._policy.abandoned(job)
            self._pending[job.id] = job
        if self._kept_until.pop(worker.number, None) is not None:
            self._keep_alive.lost(worker, self._now)
        worker.release = self._now
        del self._open[worker.number]

    def _end_idle_gap(self, worker: Worker) -> None:
        if self._kept_until.pop(worker.number, None) is not None:
            self._keep_alive.wanted(worker, self._now)

    def _release_idle(self) -> None:
        now = self._now
        for worker in [each for each in self._open.values() if each.empty and each.ready(now)]:
            until = self._kept_until.get(worker.number)
            if until is None:
                until = self._kept_until[worker.number] = worker.idle_since + self._keep_alive.fell_idle(worker)
                if until > now:
                    self._push(until, _Kind.RECHECK, worker)
            if until <= now:
                del self._kept_until[worker.number]
                self._keep_alive.released(worker)
                worker.release = now
                del self._open[worker.number]
