"""The account of a worker: its bill, and who pays which part of it. Pure: facts in, lines out.

A worker is billed from its start (or the launch of its machine, where that is known) to its end, at the price of each
moment. At each moment a running job pays its **dominant share**: the largest of its parts of the worker's CPUs, memory
and GPUs. What no job pays is overhead: `boot` until the worker first registers, `idle` afterwards. So shares and
overhead add up to the bill exactly, whatever the facts are.
"""

from collections.abc import Iterable, Iterator
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from clusterra_contracts.identity import Wire

from clusterra_events.ledger.charge import DAY_MICROSECONDS, moment, split, to_micro_usd
from clusterra_events.ledger.facts import Run, WorkerFacts
from clusterra_events.ledger.lives import WorkerLife, lives_of
from clusterra_events.ledger.sweep import Bound, Cell, Purpose, Tally, price_index, share, tallies_of

ACCOUNT_SECONDS = 10.0
"""How long the account of one worker name may take. That of 50,000 runs takes one."""

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
    template: str = ""
    micro_usd: int | None
    """None: no price is known for any of the time."""
    microseconds: int
    """For how long."""
    stale: bool = False
    """Whether the edge had not confirmed the price for a part of the time."""
    unknown: bool = False
    """Whether no price is known for a part of the time, which `micro_usd` does not contain."""

    @property
    def is_gap(self) -> bool:
        """Whether it stands for lines of the worker that are not known."""
        return self.unknown and self.purpose == "unattributed" and self.microseconds == 0


def lines_of(
    worker: str, facts: Iterable[WorkerFacts], as_of: int, days: tuple[date, date] | None = None
) -> list[Line]:
    """Return the lines of all workers that had this name, until `as_of` (microseconds since 1970).

    With `days` only those from the first to the last of them, both inclusive. Raises NotComputed.
    """
    bound = Bound(ACCOUNT_SECONDS)
    begin, end = (0, as_of) if days is None else (_begin(days[0]), min(as_of, _begin(days[1]) + DAY_MICROSECONDS))
    return [line for life in lives_of(facts) for line in _lines(worker, life, (begin, end), bound)]


def _begin(day: date) -> int:
    return (day - date(1970, 1, 1)).days * DAY_MICROSECONDS


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
            place = price_index(life.prices, at)
            price = life.prices[place] if place >= 0 else None
            usd = None if price is None else price.micro_usd_per_hour
            shares = [Fraction(0) if life.ready is None else share(use.run, life.ready) for use in uses]
            known, rest = (None, None) if usd is None else split(usd, shares)
            parts = [None] * len(uses) if known is None or life.ready is None else known
            stale = price is not None and price.stale
            found += [Rate(use.run, part, stale) for use, part in zip(uses, parts, strict=True)]
            if rest != 0:
                found.append(Rate(None, rest, stale))
    return found


def _lines(worker: str, life: WorkerLife, span: tuple[int, int], bound: Bound) -> Iterator[Line]:
    end = span[1] if life.end is None else min(span[1], life.end)
    by_day: dict[int, list[tuple[Cell, Tally]]] = {}
    for entry in tallies_of(life, span[0], end, bound).items():
        by_day.setdefault(entry[0].day, []).append(entry)
    for _, entries in sorted(by_day.items()):
        entries.sort(key=lambda entry: _order(*entry))
        amounts = to_micro_usd([tally.charge for _, tally in entries])
        for (cell, tally), amount in zip(entries, amounts, strict=True):
            if tally.microseconds or amount:  # not for a rounding of less than a micro-USD
                yield _line(worker, life.shape, cell, tally, amount)


def _line(worker: str, shape: str, cell: Cell, tally: Tally, amount: int) -> Line:
    run = tally.run
    return Line(
        day=moment(cell.day * DAY_MICROSECONDS).date(),
        worker=worker,
        shape=shape,
        purpose=cell.purpose,
        job_id=cell.job_id,
        run=cell.run,
        name=run.name if run else "",
        user=run.user if run else "",
        uid=run.uid if run else None,
        account=run.account if run else "",
        template=run.template if run else "",
        micro_usd=amount if tally.known else None,
        microseconds=tally.microseconds,
        stale=tally.stale,
        unknown=tally.unknown,
    )


def _order(cell: Cell, tally: Tally) -> tuple[int, int, Cell]:
    """Sorts what is over before what goes on, so that the rounding of the one does not depend on the other."""
    return _ORDER[cell.purpose], tally.until if cell.purpose == "job" else 0, cell
