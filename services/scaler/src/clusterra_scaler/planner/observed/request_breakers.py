"""Circuit breakers of requests: jobs that Slurm does not start on idle workers are no demand, except in a trial. Pure.

A breaker stands for a request, which is what equal jobs of one user ask for. It opens when they do not start (see
`unstarted_jobs`). From then on no worker is bought or kept for these jobs. After the pause, workers for one of them are
tried. A cluster has one such trial at a time, however many requests fail.

Jobs that were submitted later may differ in what no snapshot tells. So they need not wait for the pause: workers for
one of them at a time are tried at once. If it starts, the breaker closes, and only the jobs before it still wait for
their pause. If one of those starts, all of them are demand again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.identity import JobId, Moment
from clusterra_contracts.queue import RunningJob

from clusterra_scaler.planner.observed.breakers import LONGEST_PAUSE_SECONDS, CircuitBreaker
from clusterra_scaler.planner.requests.demand import Demand
from clusterra_scaler.planner.requests.request_key import job_number, last_number, request_key

MAX_BREAKERS = 1000
"""Of one cluster. Where there are more, those that have failed last are kept."""
LONGEST_TRIAL_SECONDS = 1800.0
"""A trial that has neither started a job nor failed by then, such as for want of a worker, makes room for the next."""


class RequestBreaker(CircuitBreaker):
    """The circuit breaker of one request."""

    request: str
    """Its key."""
    uid: int
    up_to: int
    """The number of the latest job that did not start; 0 once one of these jobs has started."""
    tried_at: Moment | None = None
    """When its trial began; None while there is none."""

    def description(self, now: datetime) -> str:
        """Why no worker is bought for its jobs, for a person."""
        times = f"{self.failures} times " if self.failures > 1 else ""
        then = f"at {self.probe_at:%H:%M} UTC" if now < self.probe_at else "after those of other such jobs"
        return (
            f"Slurm did not start it {times}on idle workers that should fit it, since {self.opened_at:%H:%M} UTC; "
            f"workers for one such job are tried {then}"
        )


@dataclass(frozen=True, slots=True)
class AdmittedDemand:
    """A demand, and for how many of its jobs workers are planned."""

    demand: Demand
    count: int
    breaker: RequestBreaker | None
    """What holds the others back."""


def admitted_demands(demands: Iterable[Demand], breakers: Sequence[RequestBreaker]) -> Iterator[AdmittedDemand]:
    """For how many of each demand's jobs workers may be planned, in the same order."""
    tried: set[str] = set()
    for demand, breaker in _with_breakers(demands, breakers):
        if breaker is None:
            yield AdmittedDemand(demand, demand.count, None)
            continue
        late = sum(job_number(job_id) > breaker.up_to for job_id in demand.job_ids)
        if breaker.tripped or late < len(demand.job_ids):
            trial = breaker.request not in tried and (breaker.tried_at is not None or (breaker.tripped and late > 0))
            count = min(demand.count, max(int(trial), 0 if breaker.tripped else late))
            if trial:
                tried.add(breaker.request)
        else:
            count = demand.count
        yield AdmittedDemand(demand, count, breaker if count < demand.count else None)


def waiting_jobs(demands: Iterable[Demand], breakers: Sequence[RequestBreaker]) -> Mapping[str, frozenset[JobId]]:
    """The waiting jobs of each request that has a breaker."""
    found: defaultdict[str, set[JobId]] = defaultdict(set)
    for demand, breaker in _with_breakers(demands, breakers):
        if breaker is not None:
            found[breaker.request].update(demand.job_ids)
    return {key: frozenset(job_ids) for key, job_ids in found.items()}


def started_jobs(
    waiting: Mapping[str, AbstractSet[JobId]], running: Iterable[RunningJob], breakers: Iterable[RequestBreaker]
) -> Mapping[str, AbstractSet[int]]:
    """The numbers of the jobs of each request that have started since it failed. `waiting`: before this snapshot."""
    known = [(breaker, waiting[breaker.request]) for breaker in breakers if breaker.request in waiting]
    if not known:
        return {}
    started_at: dict[JobId, datetime] = {}
    for job in running:
        for name in (job.job_id, job.job_id.partition("_")[0]):
            started_at[name] = max(job.started_at, started_at.get(name, job.started_at))
    return {
        breaker.request: {
            job_number(job_id) for job_id in job_ids & started_at.keys() if started_at[job_id] >= breaker.failed_at
        }
        for breaker, job_ids in known
    }


def request_breakers_after(
    breakers: Sequence[RequestBreaker],
    failing: Mapping[str, Demand],
    started: Mapping[str, AbstractSet[int]],
    demands: Sequence[Demand],
    now: datetime,
) -> tuple[RequestBreaker, ...]:
    """Return the breakers after a complete observation: requests in `failing` open, and those in `started` close.

    `demands` are all jobs that wait for nodes. Repeating the same observation without failures changes nothing.
    """
    if not breakers and not failing:
        return ()
    known = {breaker.request: breaker for breaker in breakers}
    after = {key: _failed(known.get(key), key, demand, demands, now) for key, demand in failing.items()}
    waiting = waiting_jobs(demands, breakers)
    for key in known.keys() - after.keys():
        kept = _going_on(known[key], started.get(key, frozenset()), waiting.get(key, frozenset()), now)
        if kept is not None:
            after[key] = kept
    latest = sorted(after.values(), key=lambda breaker: (breaker.failed_at, breaker.request))[-MAX_BREAKERS:]
    return tuple(_with_one_trial(latest, waiting, now))


def _failed(
    before: RequestBreaker | None, key: str, failed: Demand, demands: Iterable[Demand], now: datetime
) -> RequestBreaker:
    alike = (demand for demand in demands if demand.uid == failed.uid and request_key(demand) == key)
    up_to = max(map(last_number, alike), default=last_number(failed))
    if before is not None and before.is_open(now):
        # A later job was tried during the pause. It now waits for the same pause.
        return before.model_copy(update={"up_to": max(up_to, before.up_to)})
    return RequestBreaker(
        request=key,
        uid=failed.uid,
        up_to=up_to,
        opened_at=before.opened_at if before is not None and before.tripped else now,
        failed_at=now,
        failures=before.failures + 1 if before is not None else 1,
    )


def _going_on(
    before: RequestBreaker, started: AbstractSet[int], waiting: AbstractSet[JobId], now: datetime
) -> RequestBreaker | None:
    """The breaker of a request that has not failed now; None for one that is not needed any more."""
    after = before
    if started:
        after = after.model_copy(update={"closed_at": after.closed_at or now})
        if min(started) <= after.up_to:
            after = after.model_copy(update={"up_to": 0, "tried_at": None})
    if not _has_old(after, waiting):
        after = after if after.tried_at is None else after.model_copy(update={"tried_at": None})
        since = after.closed_at or after.failed_at
        if (now - since).total_seconds() >= LONGEST_PAUSE_SECONDS and (after.closed_at or not waiting):
            return None
    elif after.tried_at is not None and (now - after.tried_at).total_seconds() >= LONGEST_TRIAL_SECONDS:
        after = after.model_copy(update={"tried_at": None, "failed_at": now})
    return after


def _with_one_trial(
    breakers: Sequence[RequestBreaker], waiting: Mapping[str, AbstractSet[JobId]], now: datetime
) -> Iterable[RequestBreaker]:
    """The breakers with a trial of the one that has been due for longest, unless there is a trial."""
    due = [
        breaker
        for breaker in breakers
        if breaker.probe_at <= now and _has_old(breaker, waiting.get(breaker.request, frozenset()))
    ]
    if not due or any(breaker.tried_at is not None for breaker in breakers):
        return breakers
    chosen = min(due, key=lambda breaker: (breaker.probe_at, breaker.request))
    return [breaker.model_copy(update={"tried_at": now}) if breaker is chosen else breaker for breaker in breakers]


def _has_old(breaker: RequestBreaker, waiting: Iterable[JobId]) -> bool:
    """Whether one of the jobs waits that did not start."""
    return any(job_number(job_id) <= breaker.up_to for job_id in waiting)


def _with_breakers(
    demands: Iterable[Demand], breakers: Sequence[RequestBreaker]
) -> Iterator[tuple[Demand, RequestBreaker | None]]:
    known = {breaker.request: breaker for breaker in breakers}
    uids = {breaker.uid for breaker in breakers}
    for demand in demands:
        yield demand, known.get(request_key(demand)) if demand.uid in uids else None
