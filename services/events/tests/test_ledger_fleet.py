"""Whatever happens to clocks, ends and events: jobs and the overhead pay the bill of the fleet, in few steps."""

import random
from datetime import timedelta

from clusterra_events.ledger.account import Line, lines_of
from clusterra_events.ledger.charge import microseconds
from clusterra_events.ledger.lives import lives_of
from clusterra_events.ledger.sweep import Bound, tallies_of
from hypothesis import given
from hypothesis import strategies as st

from .faulty_histories import HOUR, faulty_history
from .ledger_histories import START, History
from .test_ledger_account import facts_by_worker

UNTIL = 20 * HOUR


def account(made: History) -> tuple[list[Line], int, int]:
    """The lines of a fleet, the steps that they took, and how many facts there are."""
    lines, steps, count, until = list[Line](), 0, 0, microseconds(START) + UNTIL
    for worker, facts in facts_by_worker(made.events).items():
        lines += lines_of(worker, facts, until)
        count += len(facts)
        bound = Bound(60.0)
        for life in lives_of(facts):
            tallies_of(life, 0, until if life.end is None else min(life.end, until), bound)
        steps += bound._steps
    return lines, steps, count


def check(made: History) -> list[Line]:
    lines, steps, facts = account(made)

    worker_days = len({(line.worker, line.day) for line in lines}) * 2  # of two workers of the name
    assert abs(sum(line.micro_usd or 0 for line in lines) - made.bill(UNTIL)) <= worker_days / 2
    assert all(line.micro_usd is None or line.micro_usd >= 0 for line in lines)
    assert steps <= 4 * (facts + len(lines))
    return lines


@given(st.integers(0, 10**9), st.integers(1, 6), st.integers(0, 120))
def test_the_fleet_costs_what_its_jobs_and_the_overhead_pay(seed: int, names: int, runs: int) -> None:
    made = faulty_history(seed, names=names, runs=runs)

    lines = check(made)

    random.Random(seed).shuffle(made.events)
    assert sorted(account(made)[0], key=_order) == sorted(lines, key=_order)


@given(st.integers(0, 10**9), st.integers(0, 1))
def test_the_lines_of_some_days_are_those_of_all_days(seed: int, day: int) -> None:
    made, until = faulty_history(seed, names=2, runs=40), microseconds(START) + UNTIL
    wanted = START.date() + timedelta(days=day)
    for worker, facts in facts_by_worker(made.events).items():
        every_day = lines_of(worker, facts, until)

        of_day = lines_of(worker, facts, until, (wanted, wanted))

        assert of_day == [line for line in every_day if line.day == wanted]


def _order(line: Line) -> tuple[object, ...]:
    return line.worker, line.day, line.purpose, line.job_id, line.run, line.micro_usd or 0


def test_ten_thousand_runs_cost_what_the_fleet_costs() -> None:
    lines = check(faulty_history(1, names=40, runs=10_000))

    assert (
        len({(line.job_id, line.run) for line in lines if line.purpose == "job"}) > 6_000
    )  # a third of them end as they start
