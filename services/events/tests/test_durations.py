"""Durations have at most two units, and none that is zero but the last."""

from datetime import timedelta

import pytest
from clusterra_events.durations import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3599, "59 min 59 s"),
        (7500, "2 h 5 min"),
        (3600, "1 h"),
        (180_000, "2 d 2 h"),
        (172_800, "2 d"),
    ],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text
