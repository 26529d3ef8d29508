"""Durations and points in time are Slurm's. Each expectation was measured on sbatch 26.05."""

from datetime import UTC, datetime, timedelta

import pytest
from clusterra_sbatch import times
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 26, 12, 59, 30, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("16:00", "2026-11-26T16:00:00"),
        ("12:59", "2026-11-27T12:59:00"),
        ("4:30PM", "2026-11-26T16:30:00"),
        ("12:00am", "2026-11-27T00:00:00"),
        ("00:30pm", "2026-11-27T12:30:00"),
        ("1/2", "2027-01-02T00:00:00"),
        ("1231", "2026-12-31T00:00:00"),
        ("12/31/26", "2026-12-31T00:00:00"),
        ("12.31.26", "2026-12-31T00:00:00"),
        ("1/2T5:00", "2027-01-02T05:00:00"),
        ("16:00 1/2/27", "2027-01-02T16:00:00"),
        ("12/3/27T", "2027-12-03T00:00:00"),
        ("2027-02-03T12:00:00", "2027-02-03T12:00:00"),
        ("2026-02-30", "2026-03-02T00:00:00"),
        ("tomorrow", "2026-11-27T00:00:00"),
        ("tomorrownoon", "2026-11-27T12:00:00"),
        ("noon tomorrow", "2026-11-27T12:00:00"),
        ("today", "2026-11-26T00:00:00"),
        ("fika", "2026-11-26T15:00:00"),
        ("now", "2026-11-26T12:59:30"),
        ("now+1", "2026-11-26T12:59:31"),
        ("now-1hour", "2026-11-26T11:59:30"),
        ("now + 5 minutes", "2026-11-26T13:04:30"),
        ("NOW+1Day", "2026-11-27T12:59:30"),
        ("now+1daynoon", "2026-11-27T12:00:00"),
        ("uts1800000000", "2027-01-15T08:00:00"),
        (" 16:00", "2026-11-26T16:00:00"),
    ],
)
def test_a_text_is_this_point_in_time(text: str, point: str) -> None:
    assert datetime.fromtimestamp(times.timestamp(text, NOW), UTC).isoformat() == f"{point}+00:00"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "-",
            "x",
            "3",
            "31",
            "1/2/3",
            "12/31/2026",
            "2026-2-3",
            "2027-1-31",
            "20270203",
            "24:00",
            "5:7",
            "13:00PM",
        ),
        *("13:00am", "now+", "now+1h", "now+1hours5", "now+1noon", "nownow", "uts5", "1970-01-01", "2027-02-31T12"),
        *("2027-02-03T12:00:00Z", "2027-02-03T12:00:00+00:00", "\u0661/2"),
    ],
)
def test_a_text_is_no_point_in_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|must have"):
        times.timestamp(text, NOW)


@pytest.mark.parametrize("text", ["", "5:", ":5", "1:2:", "1-:", "--", "-5", "1.5", "1h", "1-2:3:4:5", "\u0665", "1 "])
def test_a_text_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time"):
        times.seconds(text)


@given(st.integers(0, 24854), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_all_notations_of_a_duration_are_equal(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = int(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds())

    found = {
        times.seconds(f"{days}-{hours}:{minutes}:{seconds}"),
        times.seconds(f"{days * 24 + hours}:{minutes}:{seconds}"),
        times.seconds(f"{(days * 24 + hours) * 60 + minutes}:{seconds}"),
    }

    assert found == {total}


@given(st.integers(86400, 4_000_000_000))
def test_a_date_with_its_time_is_read_back(point: int) -> None:
    written = datetime.fromtimestamp(point, UTC)

    read = times.timestamp(written.strftime("%Y-%m-%dT%H:%M:%S"), NOW)

    assert read == point


@given(st.text("nowtdayr0123456789:-/+. TPMuts", max_size=16))
def test_any_text_is_a_point_in_time_or_refused(text: str) -> None:
    try:
        found = times.timestamp(text, NOW)
    except (ValueError, OverflowError):
        return

    assert found > 0
