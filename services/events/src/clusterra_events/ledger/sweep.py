"""The sweep over the life of a worker: what each run and the overhead cost on each day, in n log n steps.

Between two changes of the price, the runs, the readiness or the day, the **charge of the whole worker** grows at one
rate. A run pays its share of it. So the sweep adds that charge up once for all runs, and takes two readings for each
run and day: at its start and at its end. Where runs have more than the whole worker, the charge grows more slowly.
"""

import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Literal, NamedTuple

from clusterra_events.ledger.charge import DAY_MICROSECONDS
from clusterra_events.ledger.facts import Ready, Run
from clusterra_events.ledger.lives import Price, Use, WorkerLife

type Purpose = Literal["job", "boot", "idle", "unattributed"]
"""What a line is for. `unattributed`: jobs ran on a worker whose size is not known."""

MAX_LINES = 200_000
"""The most lines of one worker name. One that has a thousand jobs a day has them in half a year."""
_SCALE = 2**64
"""Fractions of a charge that are kept: the shares of a million changes are exact to a charge."""
_STEPS = 1_000
"""After so many steps the time is looked at."""


class NotComputed(Exception):
    """The costs of a worker are too many lines, or take too long."""


class Bound:
    """What the sweep over one worker name may take: seconds and lines."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._steps = 0
        self._lines = 0

    def step(self) -> None:
        """Count a step. Raises NotComputed after the last second."""
        self._steps += 1
        if self._steps % _STEPS == 0 and time.monotonic() > self._until:
            raise NotComputed("it takes too long")

    def line(self) -> None:
        """Count a line. Raises NotComputed beyond MAX_LINES."""
        self._lines += 1
        if self._lines > MAX_LINES:
            raise NotComputed(f"there are more than {MAX_LINES} lines")


class Cell(NamedTuple):
    """The key of a line within one life of a worker. `day` counts from 1970."""

    day: int
    purpose: Purpose
    job_id: str = ""
    run: str = ""


@dataclass(slots=True)
class Tally:
    """What has been added up for a line."""

    run: Run | None
    charge: int = 0
    microseconds: int = 0
    until: int = 0
    known: bool = False
    stale: bool = False
    unknown: bool = False


class _Reading(NamedTuple):
    """The sums of the sweep at a moment."""

    at: int
    whole: int
    """The charge of the whole worker, in `_SCALE` parts."""
    known: int
    """How often a price was known until then, and so on."""
    stale: int
    unknown: int


def share(run: Run, size: Ready) -> Fraction:
    """Return the dominant share of a worker that a run has."""
    parts = (
        (run.cpus if run.cpus is not None else size.cpus, size.cpus),
        (run.memory_mib or 0, size.memory_mib),
        (run.gpus, size.gpus),
    )
    return min(Fraction(1), max((Fraction(has, of) for has, of in parts if of > 0), default=Fraction(1)))


def price_index(prices: list[Price], at: int) -> int:
    """The place of the price at a moment. The first one also counts for the time before it; -1 if there is none."""
    return max(bisect_right(prices, at, key=lambda price: price.at) - 1, 0 if prices else -1)


def tallies_of(life: WorkerLife, begin: int, end: int, bound: Bound) -> dict[Cell, Tally]:
    """Return what each line of a life adds up to from `begin` to `end`. Raises NotComputed.

    The charges of a day are that of the worker: what rounding leaves of it is idle time's.
    """
    sweep = _Sweep(life, bound)
    for at in _changes(life, max(begin, life.billed_from), end):
        sweep.to(at)
    sweep.close_day()
    return sweep.tallies


def _changes(life: WorkerLife, begin: int, end: int) -> Iterator[int]:
    """The moments from `begin` to `end` at which something changes, in order."""
    if end <= begin:
        return
    found = {begin, end, *(price.at for price in life.prices), *(use.start for use in life.uses)}
    found.update(use.end for use in life.uses if use.end is not None)
    if life.ready is not None:
        found.add(life.ready_at)
    found.update(range((begin // DAY_MICROSECONDS + 1) * DAY_MICROSECONDS, end, DAY_MICROSECONDS))
    yield from sorted(at for at in found if begin <= at <= end)


_BEFORE = _Reading(-1, 0, 0, 0, 0)


@dataclass(slots=True)
class _Sweep:
    life: WorkerLife
    bound: Bound
    tallies: dict[Cell, Tally] = field(default_factory=dict)
    _now: _Reading = _BEFORE
    _day: int = -1
    _bill: int = 0
    """The charge of the worker on this day, and what of it is in `tallies`."""
    _paid: int = 0
    _rest: dict[Purpose, int] = field(default_factory=dict)
    """The overhead of this day, in `_whole` parts of a charge."""
    _running: dict[int, _Reading] = field(default_factory=dict)
    """The runs that run, by their place in `life.uses`, and the reading from which on they have not paid."""
    _total: int = 0
    """The shares of all that run, in `_whole` parts of the worker."""
    _weights: list[int] = field(default_factory=list)
    _whole: int = 1
    _next_start: int = 0
    _ends: list[tuple[int, int]] = field(default_factory=list)
    _next_end: int = 0

    def __post_init__(self) -> None:
        size = self.life.ready
        if size is not None:
            shares = [share(use.run, size) for use in self.life.uses]
            self._whole = lcm(*{each.denominator for each in shares}, 1)
            self._weights = [each.numerator * (self._whole // each.denominator) for each in shares]
        else:
            self._weights = [0] * len(self.life.uses)
        self._ends = sorted((use.end, place) for place, use in enumerate(self.life.uses) if use.end is not None)

    def to(self, at: int) -> None:
        """Go on to the next change."""
        self.bound.step()
        if self._now.at >= 0:
            self._advance(at)
        else:
            self._now = self._now._replace(at=at)
        day = at // DAY_MICROSECONDS
        if day != self._day:
            self.close_day()
            self._day = day
        self._stop_and_start(at)

    def close_day(self) -> None:
        """Let everybody pay what they owe for the day."""
        for place in self._running:
            self._pay(place)
        for purpose, rest in self._rest.items():
            charge = rest // self._whole
            self.tallies[Cell(self._day, purpose)].charge += charge
            self._paid += charge
        if left := self._bill - self._paid:
            tally = self._tally(Cell(self._day, "idle"), None)
            tally.charge += left
            tally.known = True
        self._bill = self._paid = 0
        self._rest = {}

    def _advance(self, at: int) -> None:
        """Add up the time until the next change, in which everything stays as it is."""
        life, before = self.life, self._now
        place = price_index(life.prices, before.at)
        price = life.prices[place] if place >= 0 else None
        usd = None if price is None else price.micro_usd_per_hour
        stale = price is not None and price.stale
        charge = (at - before.at) * (usd or 0)
        whole = charge * _SCALE if self._total <= self._whole else charge * _SCALE * self._whole // self._total
        self._bill += charge
        self._now = _Reading(
            at,
            before.whole + whole,
            before.known + (usd is not None),
            before.stale + stale,
            before.unknown + (usd is None),
        )
        if self._total < self._whole:
            purpose = self._purpose(before.at)
            self._rest[purpose] = self._rest.get(purpose, 0) + charge * (self._whole - self._total)
            self._add(Cell(self._day, purpose), None, before, 0)

    def _purpose(self, at: int) -> Purpose:
        if not self._running and (self.life.ready is None or at < self.life.ready_at):
            return "boot"
        return "unattributed" if self.life.ready is None else "idle"

    def _stop_and_start(self, at: int) -> None:
        while self._next_end < len(self._ends) and self._ends[self._next_end][0] <= at:
            place = self._ends[self._next_end][1]
            self._next_end += 1
            if place in self._running:
                self._pay(place)
                del self._running[place]
                self._total -= self._weights[place]
        uses = self.life.uses
        while self._next_start < len(uses) and uses[self._next_start].start <= at:
            place = self._next_start
            self._next_start += 1
            use = uses[place]
            if use.end is None or use.end > at:
                self._running[place] = self._now
                self._total += self._weights[place]

    def _pay(self, place: int) -> None:
        """Let a run pay what it owes since it last paid."""
        self.bound.step()
        since, use = self._running[place], self.life.uses[place]
        self._running[place] = self._now
        if self.life.ready is not None and since.at < self._now.at:
            charge = self._weights[place] * (self._now.whole - since.whole) // (self._whole * _SCALE)
            self._paid += charge
            self._add(_cell(self._day, use), use.run, since, charge)

    def _add(self, cell: Cell, run: Run | None, since: _Reading, charge: int) -> None:
        tally, now = self._tally(cell, run), self._now
        tally.charge += charge
        tally.microseconds += now.at - since.at
        tally.until = max(tally.until, now.at)
        tally.known |= now.known > since.known
        tally.stale |= now.stale > since.stale
        tally.unknown |= now.unknown > since.unknown

    def _tally(self, cell: Cell, run: Run | None) -> Tally:
        found = self.tallies.get(cell)
        if found is None:
            self.bound.line()
            found = self.tallies[cell] = Tally(run)
        return found


def _cell(day: int, use: Use) -> Cell:
    return Cell(day, "job", use.run.job_id, use.run.run_id)
