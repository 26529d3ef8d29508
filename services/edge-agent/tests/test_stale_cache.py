"""How long controllers may act on an old copy of the pods, as the agent estimates it."""

from itertools import cycle
from pathlib import Path

import pytest
from clusterra_edge_agent.kubernetes.workers.stale_cache import (
    MAX_GUARD_SECONDS,
    MIN_GUARD_SECONDS,
    SAME_OUTAGE_SECONDS,
    StaleCacheGuard,
)
from hypothesis import given
from hypothesis import strategies as st

START = 1_000_000.0
PRECISION = 1e-6
"""Precision, in seconds."""


class GuardTimeline:
    """A guard on a clock that counts seconds since START."""

    def __init__(self, folder: Path) -> None:
        self.seconds = 0.0
        self._file = folder / "trouble.json"
        self.restart()

    def restart(self) -> None:
        self.guard = StaleCacheGuard(self._file, lambda: START + self.seconds)

    def outage(self, start: float, end: float, collection: str = "pods") -> None:
        """Simulates an outage that is observed once at its start, and once at its end."""
        self.seconds = start
        self.guard.record(collection, False)
        assert not self.guard.caches_fresh
        self.seconds = end
        self.guard.record(collection, True)

    def seconds_until_fresh(self) -> float:
        """Returns the seconds from now until the caches are fresh."""
        now, least, most = self.seconds, 0.0, 2 * MAX_GUARD_SECONDS
        while most - least > PRECISION:
            self.seconds = now + (least + most) / 2
            least, most = (least, self.seconds - now) if self.guard.caches_fresh else (self.seconds - now, most)
        self.seconds = now
        return most


def test_caches_are_fresh_without_an_outage(tmp_path: Path) -> None:
    timeline = GuardTimeline(tmp_path)
    assert timeline.guard.caches_fresh
    timeline.guard.record("pods", True)
    assert timeline.guard.caches_fresh
    assert list(tmp_path.iterdir()) == [], "a followed watch writes nothing"


def test_a_longer_outage_is_guarded_for_longer(tmp_path: Path) -> None:
    for number, (away, expected) in enumerate(((0, MIN_GUARD_SECONDS), (4, 29), (15, 95), (600, MAX_GUARD_SECONDS))):
        timeline = GuardTimeline(tmp_path)
        start = number * 10_000.0
        timeline.outage(start, start + away)
        assert abs(timeline.seconds_until_fresh() - expected) < 0.01, away


def test_an_outage_soon_after_another_extends_it(tmp_path: Path) -> None:
    timeline = GuardTimeline(tmp_path)
    timeline.outage(0, 2)
    timeline.outage(10, 12)

    assert abs(timeline.seconds_until_fresh() - (6 * 12 + 5)) < 0.01

    late = 12 + (6 * 12 + 5) + SAME_OUTAGE_SECONDS
    timeline.outage(late, late + 2)
    assert abs(timeline.seconds_until_fresh() - (6 * 2 + 5)) < 0.01


def test_an_outage_lasts_until_all_collections_are_followed_even_across_restarts(tmp_path: Path) -> None:
    timeline = GuardTimeline(tmp_path)
    timeline.guard.record("pods", False)
    timeline.guard.record("deployments", False)
    timeline.seconds = 1
    timeline.guard.record("pods", True)
    timeline.seconds = 500
    timeline.restart()

    assert not timeline.guard.caches_fresh

    timeline.guard.record("deployments", True)
    assert abs(timeline.seconds_until_fresh() - MAX_GUARD_SECONDS) < 0.01


def test_a_record_of_an_earlier_version_counts_as_a_long_outage(tmp_path: Path) -> None:
    (tmp_path / "trouble.json").write_text(f'{{"at": {START - 20}}}')
    assert abs(GuardTimeline(tmp_path).seconds_until_fresh() - (MAX_GUARD_SECONDS - 20)) < 0.01


@given(away_seconds=st.floats(0, 900), chances=st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_no_controller_lists_its_pods_after_the_guard_time(
    away_seconds: float, chances: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """client-go's Reflector requests its watch at once and after each pause; rejected, it pauses again."""
    pauses = (min(0.8 * 2**number, 30.0) * (1 + chance) for number, chance in enumerate(cycle(chances)))
    seconds = 0.0
    while seconds < away_seconds:
        seconds += next(pauses)
    seconds += next(pauses)
    timeline = GuardTimeline(tmp_path_factory.mktemp("guard"))

    timeline.outage(0, away_seconds)

    assert seconds <= away_seconds + timeline.seconds_until_fresh()
