"""The lives of the workers that had one name: facts put together, with their times as microseconds since 1970.

The times come from three clocks: the edge's for workers, slurmctld's for runs, and the worker's own for its
registration. Any of them may be wrong. So registrations and runs belong to workers by **name**: one that seems to be
before its worker is moved to its start. A run then costs what it took.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from clusterra_contracts.identity import MAX_CLOCK_AHEAD, JobId

from clusterra_events.ledger.charge import microseconds
from clusterra_events.ledger.facts import Life, Priced, Ready, Run, Superseded, WorkerFacts

CLOCK_MARGIN = 2_000_000
"""Slurm's times are whole seconds, so a worker may seem to register before it was started."""
DEAD_NODE = 600_000_000
"""For so long after its end Slurm may still start runs on a worker, which then never ran: its SlurmdTimeout is less."""
_MAX_AHEAD = MAX_CLOCK_AHEAD.days * 86_400_000_000
"""A difference of two clocks is at most a day: what is further away belongs to another worker, which is not known."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price from a moment on; None: unknown."""

    at: int
    micro_usd_per_hour: int | None
    stale: bool


@dataclass(frozen=True, slots=True)
class Use:
    """A run on a worker, in microseconds since 1970. `end` is None while it runs."""

    run: Run
    start: int
    end: int | None


@dataclass(slots=True)
class WorkerLife:
    """A worker from its start to its end."""

    shape: str
    start: int
    end: int | None = None
    """None: it has not ended."""
    billable_from: int | None = None
    ready: Ready | None = None
    ready_at: int = 0
    """When it registered, by the edge's clock."""
    ahead: int = 0
    """How far the edge's clock is ahead of the worker's, as far as is known."""
    prices: list[Price] = field(default_factory=list)
    """In their order."""
    uses: list[Use] = field(default_factory=list)

    @property
    def billed_from(self) -> int:
        """When it began to cost money: with the launch of its machine, where that is known and later."""
        return max(self.start, self.billable_from or self.start)


def lives_of(facts: Iterable[WorkerFacts]) -> list[WorkerLife]:
    """Put facts together, in n log n steps. The result depends neither on their order nor on repetitions."""
    known = tuple(facts)
    lives = _lives(known)
    starts = [life.start for life in lives]
    _register(lives, starts, sorted((each for each in known if isinstance(each, Ready)), key=_ready_order))
    for use in _runs(known):
        _attach(lives, starts, use)
    for life in lives:
        life.uses.sort(key=_use_order)
    return lives


def _register(lives: list[WorkerLife], starts: list[int], told: Iterable[Ready]) -> None:
    """Give each worker its first registration; where it has none, the last one between its predecessor and itself."""
    early: dict[int, Ready] = {}
    for fact in told:
        at = microseconds(fact.at)
        place = bisect_right(starts, at + CLOCK_MARGIN) - 1
        life = lives[place] if place >= 0 else None
        if life is not None and (life.end is None or at < life.end or life.ready is None):
            if life.ready is None:
                life.ready, life.ready_at = fact, at
        else:
            early[place + 1] = fact
    for place, fact in early.items():
        life, at = (lives[place], microseconds(fact.at)) if place < len(lives) else (None, 0)
        if life is not None and life.ready is None and life.start - at <= _MAX_AHEAD:
            life.ready, life.ready_at, life.ahead = fact, life.start, life.start - at


def _attach(lives: list[WorkerLife], starts: list[int], use: Use) -> None:
    """Give a run to the worker that it ran on: one, as a run does not survive its worker."""
    place = bisect_right(starts, use.start) - 1
    before = lives[place] if place >= 0 else None
    after = lives[place + 1] if place + 1 < len(lives) else None
    gap = 0 if before is None or before.end is None else max(0, use.start - before.end)
    if after is not None and (before is None or 0 < after.start - use.start <= gap):
        if after.start - use.start <= _MAX_AHEAD:
            after.uses.append(_moved(use, after))
    elif before is not None and before.end is not None and gap > DEAD_NODE:
        if gap <= _MAX_AHEAD and use.end is not None:
            start = max(before.start, before.end - (use.end - use.start))
            before.uses.append(Use(use.run, start, before.end))
    elif before is not None:
        before.uses.append(_moved(use, before))


def _moved(use: Use, life: WorkerLife) -> Use:
    """A run by the clock of the edge."""
    by = life.ahead
    if use.start + by < life.start - CLOCK_MARGIN:
        by = life.start - use.start
    return use if by == 0 else Use(use.run, use.start + by, None if use.end is None else use.end + by)


def _lives(facts: Iterable[WorkerFacts]) -> list[WorkerLife]:
    lives: dict[int, WorkerLife] = {}
    prices: dict[int, set[Priced]] = {}
    missing: dict[int, list[int]] = {}
    for fact in facts:
        if isinstance(fact, Life | Priced):
            start = microseconds(fact.started_at)
            life = lives.setdefault(start, WorkerLife(fact.shape, start))
            if isinstance(fact, Priced):
                prices.setdefault(start, set()).add(fact)
            elif fact.missing and fact.ended_at is not None:
                missing.setdefault(start, []).append(microseconds(fact.ended_at))
            elif fact.ended_at is not None:
                life.end = min(microseconds(fact.ended_at), life.end or microseconds(fact.ended_at))
    for start, ends in missing.items():
        seen = max((microseconds(each.at) for each in prices.get(start, ())), default=start)
        told = [end for end in ends if end >= seen]
        if told:
            lives[start].end = min(*told, lives[start].end or told[0])
    ordered = [lives[start] for start in sorted(lives)]
    for life, following in pairwise(ordered):
        # One worker at a time has a name.
        life.end = following.start if life.end is None else min(life.end, following.start)
    for life in ordered:
        priced = prices.get(life.start, set())
        # Of two prices of one moment the higher one counts, whichever was told first.
        points = sorted(
            (microseconds(each.at), -1 if each.micro_usd_per_hour is None else each.micro_usd_per_hour, each.stale)
            for each in priced
        )
        known = {at: Price(at, None if usd < 0 else usd, stale) for at, usd, stale in points}
        life.prices = list(known.values())
        launched = [microseconds(each.billable_from) for each in priced if each.billable_from is not None]
        life.billable_from = min(launched, default=None)
        if life.end is not None:
            life.end = max(life.end, life.start)
    return ordered


def _runs(facts: Iterable[WorkerFacts]) -> list[Use]:
    told: dict[tuple[JobId, object, int], list[Run]] = {}
    superseded: dict[tuple[JobId, object, int], int] = {}
    for fact in facts:
        if isinstance(fact, Run):
            told.setdefault(fact.key, []).append(fact)
        elif isinstance(fact, Superseded):
            at = microseconds(fact.at)
            superseded[fact.key] = min(at, superseded.get(fact.key, at))
    uses = []
    for key, runs in told.items():
        ends = [microseconds(run.ended_at) for run in runs if run.ended_at is not None]
        ends += [superseded[key]] if key in superseded else []
        # While a job runs, Slurm tells its allocation exactly; afterwards only in total.
        best = [run for run in runs if run.ended_at is None] or runs
        run = best[0] if len(best) == 1 else min(best, key=Run.model_dump_json)
        start = microseconds(run.started_at)
        uses.append(Use(run, start, max(start, min(ends)) if ends else None))
    return uses


def _use_order(use: Use) -> tuple[int, str, int]:
    return use.start, use.run.job_id, use.run.restarts


def _ready_order(fact: Ready) -> tuple[int, int, int, int]:
    return microseconds(fact.at), fact.cpus, fact.memory_mib, fact.gpus
