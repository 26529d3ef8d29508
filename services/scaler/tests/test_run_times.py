"""The estimators of run times."""

from itertools import pairwise

import pytest
from clusterra_scaler.planner.estimates.remaining_time import MIDDLES, OVER, Remaining, certain, expected, last
from clusterra_scaler.planner.estimates.run_time_model import BINS, EDGES, RunTimeCounts, RunTimeModel, age_bin
from clusterra_scaler.planner.estimates.run_times import KnownRunTimes, RunTimes, Traits, WallLimitRunTimes
from clusterra_scaler.planner.estimates.settings import LearningSettings
from hypothesis import given
from hypothesis import strategies as st
from packing_examples import HOUR, fading, remainings

DAY = 24 * HOUR
ADA = Traits("ada", DAY, 4, 8.0)
traits = st.builds(
    Traits,
    user=st.sampled_from(["ada", "bob"]),
    limit_seconds=st.sampled_from([None, 600.0, DAY, 20 * DAY]),
    cpus=st.sampled_from([1, 4]),
    memory_gib=st.sampled_from([0.0, 8.0]),
)
histories = st.lists(st.tuples(traits, st.floats(0.0, 3 * DAY), st.floats(0.0, 30 * DAY)), max_size=30)


def model_of(history: list[tuple[Traits, float, float]], until: float = 40 * DAY) -> RunTimeModel:
    """A model that learned from jobs with these traits, starts and run times, until a moment."""
    model = RunTimeModel(LearningSettings())
    moments = [(start, 0, number) for number, (_, start, _) in enumerate(history)]
    moments += [(start + runs, 1, number) for number, (_, start, runs) in enumerate(history)]
    for moment, ends, number in sorted(moments):
        if moment > until:
            break
        model.advance(moment)
        if ends:
            model.end(str(number), moment)
        else:
            model.begin(str(number), history[number][0], moment)
    model.advance(until)
    return model


@given(histories, traits, st.floats(0.0, 40 * DAY), st.floats(0.0, 40 * DAY))
def test_survival_falls_and_ends_at_the_wall_limit(
    history: list[tuple[Traits, float, float]], asked: Traits, until: float, age: float
) -> None:
    remaining = model_of(history, until).remaining("asked", asked, age)
    chances = remaining.chances

    assert all(0.0 <= chance <= 1.0 for chance in chances)
    assert all(later >= sooner - 1e-12 for sooner, later in pairwise(chances))
    assert remaining.mean_seconds >= 0.0

    limit = asked.limit_seconds or 30 * DAY
    if age < limit:
        over = [chance for middle, chance in zip(MIDDLES, chances, strict=True) if age + middle >= limit]
        assert over == [1.0] * len(over)


@given(histories, st.floats(0.0, 40 * DAY))
def test_a_stored_model_gives_the_same_answers(history: list[tuple[Traits, float, float]], until: float) -> None:
    model = model_of(history, until)
    counts = model.counts

    again = RunTimeModel(LearningSettings(), RunTimeCounts.model_validate_json(counts.model_dump_json()))
    assert again.counts == counts
    assert again.remaining("new", ADA, 0.0) == model.remaining("new", ADA, 0.0)

    for both in (model, again):
        both.advance(until + 50 * DAY)
        for number in range(len(history)):
            both.end(str(number), until + 50 * DAY)
    assert again.counts == model.counts
    assert not again.counts.running


@given(st.lists(st.floats(0.0, 20 * DAY), min_size=1, max_size=30))
def test_without_censored_jobs_survival_is_the_share_that_ran_as_long(runs: list[float]) -> None:
    model = RunTimeModel(LearningSettings(history_weight=1e-12))
    patient = Traits("ada", 25 * DAY, 4, 8.0)
    for number, seconds in enumerate(runs):
        model.begin(str(number), patient, 0.0)
        model.end(str(number), seconds)
    chances = model.remaining("asked", patient, 0.0).chances
    longest = EDGES[age_bin(max(runs))]
    for middle, chance in zip(MIDDLES, chances, strict=True):
        if middle < longest:
            since, until = EDGES[age_bin(middle)], EDGES[age_bin(middle) + 1]
            ended_before = sum(seconds < since for seconds in runs) / len(runs)
            ended_after = sum(seconds < until for seconds in runs) / len(runs)
            assert ended_before - 1e-6 <= chance <= ended_after + 1e-6


def test_a_users_jobs_teach_most_about_their_own_jobs() -> None:
    model = model_of([(ADA, 0.0, HOUR)] * 50)

    nobody = RunTimeModel(LearningSettings()).remaining("x", ADA, 0.0).mean_seconds
    own = model.remaining("own", ADA, 0.0).mean_seconds
    other = model.remaining("other", Traits("bob", DAY, 4, 8.0), 0.0).mean_seconds

    assert 0.8 * HOUR < own < 1.7 * HOUR
    assert abs(own - HOUR) < abs(other - HOUR) < abs(nobody - HOUR)


def test_running_jobs_lengthen_the_estimates() -> None:
    ended = [(ADA, 0.0, 0.1 * HOUR)] * 5
    running = [(ADA, 0.0, 30 * DAY)] * 20
    without = model_of(ended, 20 * HOUR).remaining("asked", ADA, 0.0).mean_seconds
    assert model_of(ended + running, 20 * HOUR).remaining("asked", ADA, 0.0).mean_seconds > 2 * without


def test_an_abandoned_job_counts_as_censored() -> None:
    def after(abandon: bool) -> float:
        model = RunTimeModel(LearningSettings())
        for number in range(20):
            model.begin(str(number), ADA, 0.0)
        model.advance(HOUR)
        for number in range(20):
            if abandon:
                model.abandon(str(number))
            else:
                model.end(str(number), HOUR)
        return model.remaining("asked", ADA, 0.0).mean_seconds

    assert after(abandon=True) > after(abandon=False)


def test_the_remaining_time_grows_with_the_age() -> None:
    history = [(ADA, 0.0, 60.0)] * 30 + [(ADA, 0.0, 20 * HOUR)] * 30
    model = model_of(history)
    assert model.remaining("a", ADA, 2 * HOUR).mean_seconds > model.remaining("a", ADA, 0.0).mean_seconds


@pytest.mark.parametrize("times", [WallLimitRunTimes(), KnownRunTimes({"job": DAY})])
def test_wall_limits_and_known_run_times_are_certain(times: RunTimes) -> None:
    assert times.remaining("job", ADA, 0.0) == certain(DAY)
    assert times.remaining("job", ADA, HOUR) == certain(23 * HOUR)
    assert times.remaining("job", ADA, 2 * DAY) == certain(0.2 * DAY)


def test_a_job_without_a_limit_is_assumed_to_run_a_day() -> None:
    assert WallLimitRunTimes().remaining("job", Traits("ada", None, 1, 1.0), 0.0) == certain(DAY)


@given(st.floats(0.0, 90 * DAY))
def test_an_age_lies_in_its_bin(age: float) -> None:
    found = age_bin(age)
    assert 0 <= found < BINS
    assert age >= EDGES[found] * (1 - 1e-9)
    assert found == BINS - 1 or age < EDGES[found + 1] * (1 + 1e-9)


@given(remainings, remainings)
def test_the_last_of_two_ends_no_sooner_than_either(one: Remaining, other: Remaining) -> None:
    both = last((one, other))
    within_the_grid = max(one.mean_seconds, other.mean_seconds) <= 29 * DAY

    if within_the_grid or (one.ended is None and other.ended is None):
        assert both.mean_seconds >= max(one.mean_seconds, other.mean_seconds) - 1e-6
        # The last of two ends later than one of them by as much as the other outlasts it.
        if one.ended is not None and other.ended is not None:
            assert both.mean_seconds == pytest.approx(other.mean_seconds + one.beyond(other))
    assert one.beyond(OVER) == pytest.approx(min(one.mean_seconds, 30 * DAY) if one.ended else one.mean_seconds)


def test_certain_times_and_distributions_agree_on_the_grid() -> None:
    assert certain(2 * HOUR).beyond(certain(HOUR)) == HOUR
    step = expected([1.0 - chance for chance in certain(2 * HOUR).chances])
    assert step.mean_seconds == pytest.approx(2 * HOUR)
    assert step.beyond(certain(HOUR)) == pytest.approx(HOUR)
    assert fading(HOUR).beyond(certain(3 * HOUR)) == 0.0


@given(histories, traits, st.floats(0.0, DAY))
def test_a_peek_answers_as_the_planner_is_answered_and_keeps_nothing(
    history: list[tuple[Traits, float, float]], asked: Traits, age: float
) -> None:
    peeked, other = model_of(history), model_of(history)

    answer = peeked.peek("new", asked, age)

    # A curve is fixed when the planner asks first: a kept one would not know of what follows.
    for model in (peeked, other):
        model.begin("more", asked, 40 * DAY)
        model.end("more", 40 * DAY + 60.0)
    assert peeked.remaining("new", asked, age) == other.remaining("new", asked, age)
    assert answer == model_of(history).remaining("new", asked, age)
