"""Run times learned from earlier jobs: a Kaplan-Meier estimate over age bins; running jobs are censored observations.

E. L. Kaplan, P. Meier, Nonparametric Estimation from Incomplete Observations, JASA 53 (1958). A job that has run for an
hour and still runs says much; to leave it out until it ends would make every estimate too short.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterra_contracts.identity import Wire

from clusterra_scaler.planner.estimates.remaining_time import MIDDLES, Remaining, certain, expected
from clusterra_scaler.planner.estimates.run_times import DAY, LIMIT_OF_UNLIMITED_SECONDS, OVERDUE, Traits
from clusterra_scaler.planner.estimates.settings import LearningSettings

_FIRST_BIN_SECONDS = 60.0
_GROWTH = 1.6
BINS = 25
"""Number of age bins: the first is a minute wide, each next one 1.6 times as wide, the last begins after two months."""
EDGES = (0.0, *(_FIRST_BIN_SECONDS * _GROWTH**power for power in range(BINS)))
_HORIZON_SECONDS = 30 * DAY
"""The age by which a job without a limit is assumed to end."""
_COUNT_SECONDS = 1800.0
"""How often running jobs are counted into the bins that they have reached."""

FADES_AT = 4096
"""A history with this many jobs is halved, so that older jobs count less."""
MAX_HISTORIES = 2000
"""Maximum number of histories that are kept: those used last."""


class HistoryKey(NamedTuple):
    """Which jobs share a history.

    From wide to narrow: all jobs of a limit class, those of one user among them, and those of one size among these.
    """

    limit_class: int
    """The wall limit's power of two, in seconds."""
    user: str | None = None
    cpus: int | None = None
    memory_gib: int | None = None
    """In whole GiB."""


class History(Wire):
    """How many jobs reached each age bin and how many ended in it; empty bins at the end are left out."""

    key: HistoryKey
    reached: tuple[int, ...]
    ended: tuple[int, ...]


class Running(Wire):
    """A running job, and the last age bin that it was counted into."""

    job_id: str
    began: float
    bin: int
    keys: tuple[HistoryKey, ...]


class RunTimeCounts(Wire):
    """All that was learned; stored, it lets another scaler continue."""

    histories: tuple[History, ...] = ()
    running: tuple[Running, ...] = ()


@dataclass(slots=True)
class _Histogram:
    """The counts of one history, by age bin."""

    reached: list[int] = field(default_factory=lambda: [0] * BINS)
    ended: list[int] = field(default_factory=lambda: [0] * BINS)

    def halve(self) -> None:
        """Let the jobs so far count half as much as the jobs to come."""
        self.reached = [count // 2 for count in self.reached]
        self.ended = [count // 2 for count in self.ended]


@dataclass(slots=True)
class _Job:
    began: float
    bin: int
    keys: tuple[HistoryKey, ...]


class SurvivalCurve(NamedTuple):
    """The chance that a job still runs at each of EDGES, and the age at which its wall limit stops it."""

    survival: tuple[float, ...]
    limit_seconds: float

    def at(self, age: float) -> float:
        """The chance to run longer than `age` seconds, interpolated linearly between the edges."""
        if age >= self.limit_seconds:
            return 0.0
        if age <= 0.0:
            return 1.0
        if age >= EDGES[-1]:
            return self.survival[-1]
        high = bisect_right(EDGES, age)
        begin, before = EDGES[high - 1], self.survival[high - 1]
        return before + (self.survival[high] - before) * (age - begin) / (EDGES[high] - begin)

    def after(self, age: float) -> list[float]:
        """`at` at `age` plus each of MIDDLES."""
        survival, limit_seconds = self
        chances = [0.0] * len(MIDDLES)
        high = bisect_right(EDGES, age)
        for cell, later in enumerate(MIDDLES):
            then = age + later
            if then >= limit_seconds:
                break
            while high < len(EDGES) and EDGES[high] <= then:
                high += 1
            if high == len(EDGES):
                chances[cell] = survival[-1]
            else:
                begin, before = EDGES[high - 1], survival[high - 1]
                chances[cell] = before + (survival[high] - before) * (then - begin) / (EDGES[high] - begin)
        return chances


class RunTimeModel:
    """Estimates run times from the jobs that began and ended before. See RunTimes."""

    def __init__(self, settings: LearningSettings, counts: RunTimeCounts | None = None) -> None:
        counts = counts or RunTimeCounts()
        self._settings = settings
        self._histograms = {
            each.key: _Histogram(_padded(each.reached), _padded(each.ended)) for each in counts.histories
        }
        self._running = {each.job_id: _Job(each.began, each.bin, each.keys) for each in counts.running}
        self._curves: dict[str, SurvivalCurve] = {}
        self._survivals: dict[tuple[HistoryKey, ...], tuple[float, ...]] = {}
        """Of the present counts: thousands of jobs have the same histories."""
        self._counted_at = -math.inf

    @property
    def counts(self) -> RunTimeCounts:
        """What must be stored."""
        return RunTimeCounts(
            histories=tuple(
                History(key=key, reached=_trimmed(histogram.reached), ended=_trimmed(histogram.ended))
                for key, histogram in self._histograms.items()
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
        """When running jobs were last counted."""
        return self._counted_at

    def clear_curves(self) -> None:
        """Derive all further answers from the counts alone, also for jobs that were estimated before."""
        self._curves.clear()

    def begin(self, job_id: str, traits: Traits, now: float) -> None:
        """See RunTimes."""
        self._curve(job_id, traits)
        self._survivals.clear()
        job = _Job(now, 0, history_keys(traits))
        for key in job.keys:
            # The histories used last stand at the end.
            histogram = self._histograms[key] = self._histograms.pop(key, _Histogram())
            histogram.reached[0] += 1
            if histogram.reached[0] >= FADES_AT:
                histogram.halve()
        while len(self._histograms) > MAX_HISTORIES:
            del self._histograms[next(iter(self._histograms))]
        self._running[job_id] = job

    def end(self, job_id: str, now: float) -> None:
        """See RunTimes. A job whose beginning was not recorded teaches nothing."""
        self._curves.pop(job_id, None)
        job = self._running.pop(job_id, None)
        if job is None:
            return
        self._survivals.clear()
        self._count(job, age_bin(now - job.began))
        for key in job.keys:
            if key in self._histograms:
                self._histograms[key].ended[job.bin] += 1

    def abandon(self, job_id: str) -> None:
        """See RunTimes. It stays counted as a censored observation at its age."""
        self._curves.pop(job_id, None)
        self._running.pop(job_id, None)

    def advance(self, now: float) -> None:
        """See RunTimes."""
        if now - self._counted_at < _COUNT_SECONDS:
            return
        self._counted_at = now
        self._survivals.clear()
        for job in self._running.values():
            self._count(job, age_bin(now - job.began))

    def remaining(self, job_id: str, traits: Traits, age: float) -> Remaining:
        """See RunTimes. A job's curve is fixed when it is first asked for, so that plans are stable."""
        return _remaining(self._curve(job_id, traits), age)

    def peek(self, job_id: str, traits: Traits, age: float) -> Remaining:
        """`remaining`, but nothing is fixed or kept: it may be asked while another thread plans."""
        return _remaining(self._curves.get(job_id) or self._made_curve(history_keys(traits), traits), age)

    def ends_within(self, job_id: str, traits: Traits, age: float, seconds: float) -> float:
        """The chance that a job of this age has ended after `seconds` more; 0 for a job that is long overdue."""
        curve = self._curve(job_id, traits)
        now = curve.at(age)
        return 1.0 - curve.at(age + seconds) / now if now > 0.0 else 0.0

    def _count(self, job: _Job, reached: int) -> None:
        for key in job.keys:
            if key in self._histograms:
                counts = self._histograms[key].reached
                for each in range(job.bin + 1, reached + 1):
                    counts[each] += 1
        job.bin = max(job.bin, reached)

    def _curve(self, job_id: str, traits: Traits) -> SurvivalCurve:
        curve = self._curves.get(job_id)
        if curve is None:
            keys = history_keys(traits)
            curve = self._curves[job_id] = self._made_curve(keys, traits)
            self._survivals[keys] = curve.survival
        return curve

    def _made_curve(self, keys: tuple[HistoryKey, ...], traits: Traits) -> SurvivalCurve:
        """A job's curve by the present counts."""
        survival = self._survivals.get(keys)
        if survival is None:
            found = [histogram for key in keys if (histogram := self._histograms.get(key)) is not None]
            survival = self._survival(found)
        return SurvivalCurve(survival, traits.limit_seconds or _HORIZON_SECONDS)

    def _survival(self, histograms: list[_Histogram]) -> tuple[float, ...]:
        """The survival at each of EDGES. Each history refines the wider one before it, which is its prior."""
        weight = self._settings.history_weight
        alive, survival = 1.0, [1.0]
        for each in range(BINS):
            hazard = self._settings.first_hazard
            for histogram in histograms:
                hazard = (histogram.ended[each] + weight * hazard) / (histogram.reached[each] + weight)
            alive *= 1.0 - hazard
            survival.append(alive)
        return tuple(survival)


def _remaining(curve: SurvivalCurve, age: float) -> Remaining:
    if age >= curve.limit_seconds:
        curve = SurvivalCurve(curve.survival, age * (1.0 + OVERDUE) + 600.0)
    now = curve.at(age)
    if now <= 1e-9:
        return certain(OVERDUE * age)
    return expected([chance / now for chance in curve.after(age)])


def history_keys(traits: Traits) -> tuple[HistoryKey, ...]:
    """The histories that a job belongs to, the widest first."""
    limit = round(math.log2(traits.limit_seconds or LIMIT_OF_UNLIMITED_SECONDS))
    return (
        HistoryKey(limit),
        HistoryKey(limit, traits.user),
        HistoryKey(limit, traits.user, traits.cpus, round(traits.memory_gib)),
    )


def age_bin(age: float) -> int:
    """The age bin of `age` seconds."""
    return min(BINS - 1, max(0, bisect_right(EDGES, age) - 1))


def _padded(numbers: tuple[int, ...]) -> list[int]:
    return [*numbers, *[0] * (BINS - len(numbers))]


def _trimmed(numbers: list[int]) -> tuple[int, ...]:
    length = len(numbers)
    while length and not numbers[length - 1]:
        length -= 1
    return tuple(numbers[:length])
