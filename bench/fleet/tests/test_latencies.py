"""Latencies count from the first poll that told the news, open news included; quantiles come from cumulative counts."""

import math

import pytest
from fleet.clock import GIVEN_UP_SECONDS, Answer, Latencies, percentile
from fleet.histogram import quantile_ms
from hypothesis import given
from hypothesis import strategies as st


def answer(at: float) -> Answer:
    return Answer(snapshot_at=at - 0.06, decided_at=at - 0.02, at=at)


def test_news_counts_from_the_poll_that_told_it() -> None:
    latencies = Latencies()
    latencies.happened("a", 10.0)
    latencies.told("a", 10.4)
    latencies.told("a", 10.9)
    latencies.answered("a", answer(10.5))
    latencies.answered("a", answer(99.0))

    figures = latencies.figures(11.0)

    assert figures["news"] == 1
    assert figures["p99_ms"] == pytest.approx(100.0)
    assert figures["from_change_p99_ms"] == pytest.approx(500.0)
    parts = ("told_to_snapshot", "snapshot_to_decided", "decided_to_arrived")
    assert [figures[f"{part}_p50_ms"] for part in parts] == pytest.approx([40.0, 40.0, 20.0])


def test_news_without_an_answer_counts_as_given_up() -> None:
    latencies = Latencies()
    latencies.happened("a", 10.0)
    latencies.told("a", 10.5)

    figures = latencies.figures(30.0)

    assert figures["unanswered"] == 1
    assert figures["p99_ms"] == GIVEN_UP_SECONDS * 1000


def test_news_whose_job_starts_on_a_worker_that_is_there_needs_no_answer() -> None:
    latencies = Latencies()
    latencies.happened("a", 10.0)
    latencies.told("a", 10.5)

    latencies.served("a", 14.5)
    latencies.answered("a", answer(99.0))

    figures = latencies.figures(30.0)
    assert latencies.settled(15.0)
    assert (figures["unanswered"], figures["served"]) == (0, 1)
    assert figures["p99_ms"] == 4000.0


def test_news_that_is_answered_in_the_next_phase_counts_in_its_own() -> None:
    latencies = Latencies()
    latencies.happened("a", 10.0)

    following = latencies.next_phase()
    following.answered("a", answer(13.0))

    assert following.figures(20.0)["news"] == 0
    assert latencies.figures(20.0)["unanswered"] == 0
    assert latencies.figures(20.0)["p99_ms"] == pytest.approx(3000.0)


def test_a_phase_is_settled_when_its_news_is_answered_or_given_up() -> None:
    latencies = Latencies()
    latencies.happened("a", 10.0)
    latencies.happened("b", 11.0)

    waiting = latencies.settled(12.0)
    latencies.next_phase().answered("a", answer(12.5))

    assert not waiting
    assert not latencies.settled(11.0 + GIVEN_UP_SECONDS)
    assert latencies.settled(11.1 + GIVEN_UP_SECONDS)


@given(st.lists(st.floats(0, 100), min_size=1), st.integers(1, 100))
def test_a_percentile_is_a_value_with_as_many_below(values: list[float], percent: int) -> None:
    found = percentile(values, percent)

    assert found in [round(value * 1000, 1) for value in values]
    assert sum(round(value * 1000, 1) <= found for value in values) >= len(values) * percent / 100


def test_a_quantile_is_interpolated_within_its_bucket() -> None:
    counts = {0.1: 50.0, 0.2: 100.0, math.inf: 100.0}

    assert quantile_ms(counts, 0.5) == 100.0
    assert quantile_ms(counts, 0.75) == 150.0
    assert quantile_ms({math.inf: 0.0}, 0.5) is None
    assert quantile_ms({0.1: 0.0, math.inf: 3.0}, 0.5) == 100.0
