"""How long an agent thinks that the controllers may still act with an old copy of the pods."""

from itertools import cycle
from pathlib import Path

import pytest
from clusterra_edge_agent.kubernetes.workers.stale_cache import (
    CALM_SECONDS,
    LONGEST_CALM_SECONDS,
    SAME_TROUBLE_SECONDS,
    Calm,
)
from hypothesis import given
from hypothesis import strategies as st

START = 1_000_000.0
LEAST = 1e-6
"""Of a second."""


class Watched:
    """Seconds since START, and what notes the trouble then."""

    def __init__(self, folder: Path) -> None:
        self.seconds = 0.0
        self._file = folder / "trouble.json"
        self.restart()

    def restart(self) -> None:
        self.calm = Calm(self._file, lambda: START + self.seconds)

    def away(self, begin: float, end: float, collection: str = "pods") -> None:
        """The agent looks once, and then sees that it is over."""
        self.seconds = begin
        self.calm.note(collection, False)
        assert not self.calm.reached
        self.seconds = end
        self.calm.note(collection, True)

    def calm_after(self) -> float:
        """Seconds from now on until there is calm."""
        now, least, most = self.seconds, 0.0, 2 * LONGEST_CALM_SECONDS
        while most - least > LEAST:
            self.seconds = now + (least + most) / 2
            least, most = (least, self.seconds - now) if self.calm.reached else (self.seconds - now, most)
        self.seconds = now
        return most


def test_an_agent_that_has_seen_no_trouble_is_calm(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.calm.reached
    watched.calm.note("pods", True)
    assert watched.calm.reached
    assert list(tmp_path.iterdir()) == [], "each line of a watch is noted"


def test_longer_trouble_is_waited_for_longer(tmp_path: Path) -> None:
    for number, (away, expected) in enumerate(((0, CALM_SECONDS), (4, 29), (15, 95), (600, LONGEST_CALM_SECONDS))):
        watched = Watched(tmp_path)
        begin = number * 10_000.0
        watched.away(begin, begin + away)
        assert abs(watched.calm_after() - expected) < 0.01, away


def test_what_comes_soon_after_trouble_is_the_same_trouble(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.away(0, 2)
    watched.away(10, 12)
    assert abs(watched.calm_after() - (6 * 12 + 5)) < 0.01
    late = 12 + (6 * 12 + 5) + SAME_TROUBLE_SECONDS
    watched.away(late, late + 2)
    assert abs(watched.calm_after() - (6 * 2 + 5)) < 0.01


def test_trouble_lasts_until_all_can_be_followed_again_by_whatever_agent(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.calm.note("pods", False)
    watched.calm.note("deployments", False)
    watched.seconds = 1
    watched.calm.note("pods", True)
    watched.seconds = 500
    watched.restart()
    assert not watched.calm.reached
    watched.calm.note("deployments", True)
    assert abs(watched.calm_after() - LONGEST_CALM_SECONDS) < 0.01


def test_what_an_earlier_version_kept_is_long_trouble(tmp_path: Path) -> None:
    (tmp_path / "trouble.json").write_text(f'{{"at": {START - 20}}}')
    assert abs(Watched(tmp_path).calm_after() - (LONGEST_CALM_SECONDS - 20)) < 0.01


@given(away_seconds=st.floats(0, 900), chances=st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_no_controller_lists_its_pods_later(
    away_seconds: float, chances: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """client-go's Reflector asks for its watch at once and after each pause; its old one refused, it pauses again."""
    pauses = (min(0.8 * 2**number, 30.0) * (1 + chance) for number, chance in enumerate(cycle(chances)))
    seconds = 0.0
    while seconds < away_seconds:
        seconds += next(pauses)
    seconds += next(pauses)
    watched = Watched(tmp_path_factory.mktemp("calm"))
    watched.away(0, away_seconds)
    assert seconds <= away_seconds + watched.calm_after()
