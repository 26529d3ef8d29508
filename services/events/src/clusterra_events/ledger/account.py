"""The account of a worker: its bill, and who pays which part of it. Pure: facts in, lines out.

A worker is billed from its start (or the launch of its machine, where that is known) to its end, at the price of each
moment. At each moment a running job pays its **dominant share**: the largest of its parts of the worker's CPUs, memory
and GPUs. What no job pays is overhead: `boot` until the worker first registers, `idle` afterwards. So shares and
overhead add up to the bill exactly, whatever the facts are.
"""

from collections.abc import Iterable, Iterator
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple

from clusterra_contracts.identity import Wire

from clusterra_events.ledger.charge import DAY_MICROSECONDS, microseconds, moment, split, to_micro_usd
from clusterra_events.ledger.facts import Ready, Run, WorkerFacts
from clusterra_events.ledger.lives import Price, Use, WorkerLife, lives_of

Purpose = Literal["job", "boot", "idle", "unattributed"]
"""What a line is for. `unattributed`: jobs ran on a worker whose size is not known."""


_ORDER: dict[Purpose, int] = {"boot": 0, "job": 1, "unattributed": 2, "idle": 3}
"""In this order the lines of a day are rounded: a worker boots before it has jobs, and is idle until its end."""


class Line(Wire):
    """What one job, or the overhead of one purpose, cost on one worker on one day (UTC)."""

    day: date
    worker: str
    shape: str
    purpose: Purpose
    job_id: str = ""
    run: str = ""
    """The `run_id` of the job's run."""
    name: str = ""
    user: str = ""
    uid: int | None = None
    account: str = ""
    micro_usd: int | None
    """None: no price is known for any of the time."""
    microseconds: int
    """For how long."""
    stale: bool = False
    """Whether the edge had not confirmed the price for a part of the time."""
    unknown: bool = False
    """Whether no price is known for a part of the time, which `micro_usd` does not contain."""


class _Cell(NamedTuple):
    """The key of a line within one life of a worker."""

    day: int
    purpose: Purpose
    job_id: str = ""
    run: str = ""


class _Tally:
    """What has been added up for a line."""

    __slots__ = ("charge", "known", "microseconds", "run", "stale", "unknown", "until")

    def __init__(self, run: Run | None) -> None:
        self.run = run
        self.charge = self.microseconds = self.until = 0
        self.known = self.stale = self.unknown = False

    def add(self, charge: int, begin: int, end: int, price: Price | None) -> None:
        """Add a part of the time at one price."""
        self.charge += charge
        self.microseconds += end - begin
        self.until = max(self.until, end)
        known = price is not None and price.micro_usd_per_hour is not None
        self.known |= known
        self.unknown |= not known
        self.stale |= price is not None and price.stale


def lines_of(worker: str, facts: Iterable[WorkerFacts], as_of: int) -> list[Line]:
    """Return the lines of all workers that had this name, until `as_of` (microseconds since 1970)."""
    return [line for life in lives_of(facts) for line in _lines(worker, life, as_of)]


def open_at(facts: Iterable[WorkerFacts]) -> bool:
    """Whether the last worker of this name has not ended, or none was started yet."""
    lives = lives_of(facts)
    return not lives or lives[-1].end is None


class Rate(NamedTuple):
    """What a run, or with `run=None` the overhead of a worker, costs per hour at a moment.

    In micro-USD; None if the price is unknown.
    """

    run: Run | None
    micro_usd_per_hour: int | None
    stale: bool


def rates_at(facts: Iterable[WorkerFacts], at: int) -> list[Rate]:
    """Return what the runs on a worker cost per hour at a moment, and what no run pays."""
    found = []
    for life in lives_of(facts):
        if life.billed_from <= at and (life.end is None or at < life.end):
            uses = [use for use in life.uses if use.start <= at and (use.end is None or at < use.end)]
            price = _price_at(life.prices, at)
            usd = None if price is None else price.micro_usd_per_hour
            shares = [Fraction(0) if life.ready is None else share(use.run, life.ready) for use in uses]
            known, rest = (None, None) if usd is None else split(usd, shares)
            parts = [None] * len(uses) if known is None or life.ready is None else known
            stale = price is not None and price.stale
            found += [Rate(use.run, part, stale) for use, part in zip(uses, parts, strict=True)]
            if rest != 0:
                found.append(Rate(None, rest, stale))
    return found


def share(run: Run, size: Ready) -> Fraction:
    """Return the dominant share of a worker that a run has."""
    parts = (
        (run.cpus if run.cpus is not None else size.cpus, size.cpus),
        (run.memory_mib or 0, size.memory_mib),
        (run.gpus, size.gpus),
    )
    return min(Fraction(1), max((Fraction(has, of) for has, of in parts if of > 0), default=Fraction(1)))


def _lines(worker: str, life: WorkerLife, as_of: int) -> Iterator[Line]:
    tallies: dict[_Cell, _Tally] = {}
    for begin, end in _segments(life, as_of if life.end is None else min(as_of, life.end)):
        _charge(life, begin, end, tallies)
    for day in sorted({cell.day for cell in tallies}):
        cells = sorted((cell for cell in tallies if cell.day == day), key=lambda cell: _order(cell, tallies[cell]))
        amounts = to_micro_usd([tallies[cell].charge for cell in cells])
        for cell, amount in zip(cells, amounts, strict=True):
            tally, run = tallies[cell], tallies[cell].run
            yield Line(
                day=moment(day * DAY_MICROSECONDS).date(),
                worker=worker,
                shape=life.shape,
                purpose=cell.purpose,
                job_id=cell.job_id,
                run=cell.run,
                name=run.name if run else "",
                user=run.user if run else "",
                uid=run.uid if run else None,
                account=run.account if run else "",
                micro_usd=amount if tally.known else None,
                microseconds=tally.microseconds,
                stale=tally.stale,
                unknown=tally.unknown,
            )


def _segments(life: WorkerLife, end: int) -> Iterator[tuple[int, int]]:
    """Yields the times between two changes of the price, the jobs, the readiness or the day."""
    start = life.billed_from
    if end <= start:
        return
    changes = {start, end, *(price.at for price in life.prices)}
    changes.update(use.start for use in life.uses)
    changes.update(use.end for use in life.uses if use.end is not None)
    if life.ready is not None:
        changes.add(microseconds(life.ready.at))
    changes.update(range((start // DAY_MICROSECONDS + 1) * DAY_MICROSECONDS, end, DAY_MICROSECONDS))
    ordered = sorted(at for at in changes if start <= at <= end)
    yield from pairwise(ordered)


def _charge(life: WorkerLife, begin: int, end: int, tallies: dict[_Cell, _Tally]) -> None:
    day = begin // DAY_MICROSECONDS
    price = _price_at(life.prices, begin)
    charge = (end - begin) * ((price.micro_usd_per_hour or 0) if price is not None else 0)
    uses = [use for use in life.uses if use.start <= begin and (use.end is None or use.end >= end)]
    size = life.ready
    shares = [Fraction(0) if size is None else share(use.run, size) for use in uses]
    parts, rest = split(charge, shares)
    for use, part in zip(uses, parts, strict=True):
        if size is not None:
            tallies.setdefault(_cell(day, use), _Tally(use.run)).add(part, begin, end, price)
    if rest or sum(shares, Fraction(0)) < 1:
        booting = not uses and (size is None or begin < microseconds(size.at))
        purpose: Purpose = "boot" if booting else "unattributed" if size is None else "idle"
        tallies.setdefault(_Cell(day, purpose), _Tally(None)).add(rest, begin, end, price)


def _order(cell: _Cell, tally: _Tally) -> tuple[int, int, _Cell]:
    """Sorts what is over before what goes on, so that the rounding of the one does not depend on the other."""
    return _ORDER[cell.purpose], tally.until if cell.purpose == "job" else 0, cell


def _cell(day: int, use: Use) -> _Cell:
    return _Cell(day, "job", use.run.job_id, use.run.run_id)


def _price_at(prices: list[Price], at: int) -> Price | None:
    """The price at a moment. The first one that is known also counts for the time before it."""
    before = [price for price in prices if price.at <= at]
    if before:
        return before[-1]
    return prices[0] if prices else None
