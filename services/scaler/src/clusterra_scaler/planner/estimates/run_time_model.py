"""Run times learned from jobs before: Kaplan and Meier's estimate by age bins, with those still running counted in.

E. L. Kaplan, P. Meier, Nonparametric Estimation from Incomplete Observations, JASA 53 (1958). A job that has run for an
hour and still runs says much; leaving it out until it ends would make every expectation too short.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterra_contracts.identity import Wire

from clusterra_scaler.planner.estimates.remaining_time import MIDDLES, Remaining, certain, expected
from clusterra_scaler.planner.estimates.run_times import DAY, LIMIT_OF_UNLIMITED_SECONDS, OVERDUE, Traits
from clusterra_scaler.planner.packing.settings import Settings

_FIRST_BIN_SECONDS = 60.0
_GROWTH = 1.6
BINS = 25
"""Age bins: the first a minute, each next 1.6 times as long, the last from two months on."""
EDGES = (0.0, *(_FIRST_BIN_SECONDS * _GROWTH**power for power in range(BINS)))
_HORIZON_SECONDS = 30 * DAY
"""A job without a limit is taken to end by then."""
_COUNT_SECONDS = 1800.0
"""How often running jobs are counted into the bins they reached."""

FADES_AT = 4096
"""A history of so many jobs is halved."""
MOST_HISTORIES = 2000
"""So many are kept, those used last."""


class Key(NamedTuple):
    """Which jobs share a history: those of a limit class (its power of two in seconds), then of a user of it, then of
    a size (whole GiB) of his."""

    limit_class: int
    user: str | None = None
    cpus: int | None = None
    memory_gib: int | None = None


class History(Wire):
    """How many jobs reached each age bin and how many ended in it; empty bins at the end are left out."""

    key: Key
    reached: tuple[int, ...]
    ended: tuple[int, ...]


class Running(Wire):
    """A running job, and the last bin it has been counted into."""

    job_id: str
    began: float
    bin: int
    keys: tuple[Key, ...]


class Counts(Wire):
    """All that was learned: enough to go on elsewhere."""

    histories: tuple[History, ...] = ()
    running: tuple[Running, ...] = ()


@dataclass(slots=True)
class _Row:
    reached: list[int] = field(default_factory=lambda: [0] * BINS)
    ended: list[int] = field(default_factory=lambda: [0] * BINS)

    def fade(self) -> None:
        """Let what is long ago count half as much as what comes."""
        self.reached = [count // 2 for count in self.reached]
        self.ended = [count // 2 for count in self.ended]


@dataclass(slots=True)
class _Job:
    began: float
    bin: int
    keys: tuple[Key, ...]


class Curve(NamedTuple):
    """The chance that a job still runs at each of EDGES, and the age at which it is stopped."""

    survival: tuple[float, ...]
    limit_seconds: float


class Learned:
    """Run times as RunTimes asks for them, from the jobs it was told of."""

    def __init__(self, settings: Settings, counts: Counts | None = None) -> None:
        counts = counts or Counts()
        self._settings = settings
        self._rows = {each.key: _Row(_filled(each.reached), _filled(each.ended)) for each in counts.histories}
        self._running = {each.job_id: _Job(each.began, each.bin, each.keys) for each in counts.running}
        self._curves: dict[str, Curve] = {}
        self._counted_at = -math.inf

    @property
    def counts(self) -> Counts:
        """What to keep."""
        return Counts(
            histories=tuple(
                History(key=key, reached=_trimmed(row.reached), ended=_trimmed(row.ended))
                for key, row in self._rows.items()
            ),
            running=tuple(
                Running(job_id=job_id, began=job.began, bin=job.bin, keys=job.keys)
                for job_id, job in self._running.items()
            ),
        )

    @property
    def running(self) -> frozenset[str]:
        """The jobs that have begun and not ended."""
        return frozenset(self._running)

    @property
    def counted_at(self) -> float:
        """When running jobs were counted last."""
        return self._counted_at

    def ask_anew(self) -> None:
        """Let what is expected follow from the counts alone, also of jobs that were asked for before."""
        self._curves.clear()

    def begin(self, job_id: str, traits: Traits, now: float) -> None:
        """See RunTimes."""
        self._curve(job_id, traits)
        job = _Job(now, 0, keys(traits))
        for key in job.keys:
            # The last used stand at the end.
            row = self._rows[key] = self._rows.pop(key, _Row())
            row.reached[0] += 1
            if row.reached[0] >= FADES_AT:
                row.fade()
        while len(self._rows) > MOST_HISTORIES:
            del self._rows[next(iter(self._rows))]
        self._running[job_id] = job

    def end(self, job_id: str, now: float) -> None:
        """See RunTimes. A job that was not seen to begin teaches nothing."""
        self._curves.pop(job_id, None)
        job = self._running.pop(job_id, None)
        if job is None:
            return
        self._count(job, bin_of(now - job.began))
        for key in job.keys:
            if key in self._rows:
                self._rows[key].ended[job.bin] += 1

    def abandon(self, job_id: str) -> None:
        """See RunTimes. It stays counted as one that was still running at its age."""
        self._curves.pop(job_id, None)
        self._running.pop(job_id, None)

    def advance(self, now: float) -> None:
        """See RunTimes."""
        if now - self._counted_at < _COUNT_SECONDS:
            return
        self._counted_at = now
        for job in self._running.values():
            self._count(job, bin_of(now - job.began))

    def remaining(self, job_id: str, traits: Traits, age: float) -> Remaining:
        """See RunTimes. What is expected of a job is fixed at the first question, so that plans do not waver."""
        curve = self._curve(job_id, traits)
        if age >= curve.limit_seconds:
            curve = Curve(curve.survival, age * (1.0 + OVERDUE) + 600.0)
        now = survival_at(curve, age)
        if now <= 1e-9:
            return certain(OVERDUE * age)
        return expected([survival_at(curve, age + later) / now for later in MIDDLES])

    def ends_within(self, job_id: str, traits: Traits, age: float, seconds: float) -> float:
        """The chance that a job of this age has ended after so many more seconds."""
        curve = self._curve(job_id, traits)
        now = survival_at(curve, age)
        # One that should have ended long ago is no measure for anything.
        return 1.0 - survival_at(curve, age + seconds) / now if now > 0.0 else 0.0

    def _count(self, job: _Job, reached: int) -> None:
        for key in job.keys:
            if key in self._rows:
                row = self._rows[key].reached
                for each in range(job.bin + 1, reached + 1):
                    row[each] += 1
        job.bin = max(job.bin, reached)

    def _curve(self, job_id: str, traits: Traits) -> Curve:
        curve = self._curves.get(job_id)
        if curve is None:
            rows = [self._rows[key] for key in keys(traits) if key in self._rows]
            curve = Curve(self._survival(rows), traits.limit_seconds or _HORIZON_SECONDS)
            self._curves[job_id] = curve
        return curve

    def _survival(self, rows: list[_Row]) -> tuple[float, ...]:
        """Each history refines the wider one before it, as far as it has jobs of its own to go by."""
        weight = self._settings.history_weight
        alive, survival = 1.0, [1.0]
        for each in range(BINS):
            hazard = self._settings.first_hazard
            for row in rows:
                hazard = (row.ended[each] + weight * hazard) / (row.reached[each] + weight)
            alive *= 1.0 - hazard
            survival.append(alive)
        return tuple(survival)


def keys(traits: Traits) -> tuple[Key, ...]:
    """The histories of a job, the widest first."""
    limit = round(math.log2(traits.limit_seconds or LIMIT_OF_UNLIMITED_SECONDS))
    return (Key(limit), Key(limit, traits.user), Key(limit, traits.user, traits.cpus, round(traits.memory_gib)))


def bin_of(age: float) -> int:
    """The age bin of so many seconds."""
    return min(BINS - 1, max(0, bisect_right(EDGES, age) - 1))


def survival_at(curve: Curve, age: float) -> float:
    """The chance to run longer than so many seconds, straight between the edges."""
    if age >= curve.limit_seconds:
        return 0.0
    if age <= 0.0:
        return 1.0
    if age >= EDGES[-1]:
        return curve.survival[-1]
    high = bisect_right(EDGES, age)
    begin, before = EDGES[high - 1], curve.survival[high - 1]
    return before + (curve.survival[high] - before) * (age - begin) / (EDGES[high] - begin)


def _filled(numbers: tuple[int, ...]) -> list[int]:
    return [*numbers, *[0] * (BINS - len(numbers))]


def _trimmed(numbers: list[int]) -> tuple[int, ...]:
    length = len(numbers)
    while length and not numbers[length - 1]:
        length -= 1
    return tuple(numbers[:length])
