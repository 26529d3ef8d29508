"""The lives of the workers that had one name: facts put together, with their times as microseconds since 1970."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from clusterra_contracts.identity import JobId

from clusterra_events.ledger.charge import microseconds
from clusterra_events.ledger.facts import Life, Priced, Ready, Run, Superseded, WorkerFacts

CLOCK_MARGIN = 2_000_000
"""Slurm's times are whole seconds, so a worker may seem to register before it was started."""


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
    prices: list[Price] = field(default_factory=list)
    """In their order."""
    uses: list[Use] = field(default_factory=list)

    @property
    def billed_from(self) -> int:
        """When it began to cost money: with the launch of its machine, where that is known and later."""
        return max(self.start, self.billable_from or self.start)


def lives_of(facts: Iterable[WorkerFacts]) -> list[WorkerLife]:
    """Put facts together. The result depends neither on their order nor on repetitions."""
    known = tuple(facts)
    lives = _lives(known)
    for fact in sorted((each for each in known if isinstance(each, Ready)), key=_ready_order):
        at = microseconds(fact.at)
        life = next((each for each in reversed(lives) if each.start <= at + CLOCK_MARGIN), None)
        if life is not None and life.ready is None:
            life.ready = fact
    runs = _runs(known)
    for life in lives:
        life.uses = [
            use
            for use in runs
            if (life.end is None or use.start < life.end) and (use.end is None or use.end > life.start)
        ]
    return lives


def _lives(facts: Iterable[WorkerFacts]) -> list[WorkerLife]:
    lives: dict[int, WorkerLife] = {}
    prices: dict[int, set[Priced]] = {}
    for fact in facts:
        if isinstance(fact, Life | Priced):
            start = microseconds(fact.started_at)
            life = lives.setdefault(start, WorkerLife(fact.shape, start))
            if isinstance(fact, Priced):
                prices.setdefault(start, set()).add(fact)
            elif fact.ended_at is not None:
                life.end = min(microseconds(fact.ended_at), life.end or microseconds(fact.ended_at))
    ordered = [lives[start] for start in sorted(lives)]
    for life, following in pairwise(ordered):
        # One worker at a time has a name.
        life.end = following.start if life.end is None else min(life.end, following.start)
    for life in ordered:
        told = prices.get(life.start, set())
        # Of two prices of one moment the higher one counts, whichever was told first.
        points = sorted(
            (microseconds(each.at), -1 if each.micro_usd_per_hour is None else each.micro_usd_per_hour, each.stale)
            for each in told
        )
        known = {at: Price(at, None if usd < 0 else usd, stale) for at, usd, stale in points}
        life.prices = list(known.values())
        launched = [microseconds(each.billable_from) for each in told if each.billable_from is not None]
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
        best = min(runs, key=lambda run: (run.ended_at is not None, run.model_dump_json()))
        uses.append(Use(best, microseconds(best.started_at), min(ends, default=None)))
    return sorted(uses, key=lambda use: (use.start, use.run.job_id, use.run.restarts))


def _ready_order(fact: Ready) -> tuple[int, int, int, int]:
    return microseconds(fact.at), fact.cpus, fact.memory_mib, fact.gpus
