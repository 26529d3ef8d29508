"""The accounts of workers: shares and overhead are the bill, whatever is told, in whatever order and how often."""

import random
from collections.abc import Iterable
from datetime import timedelta

from clusterra_contracts.events import Event, JobFact
from clusterra_events.ledger.account import Line, lines_of, rates_at
from clusterra_events.ledger.charge import CHARGES_PER_MICRO_USD, microseconds, to_micro_usd
from clusterra_events.ledger.facts import Run, Superseded, WorkerFacts, facts_of
from hypothesis import given
from hypothesis import strategies as st

from .ledger_histories import START, ModelWorker, at, history, job_events, told, worker_events

HOUR = 3_600_000_000


def facts_by_worker(events: Iterable[Event]) -> dict[str, list[WorkerFacts]]:
    found: dict[str, list[WorkerFacts]] = {}
    for event in events:
        for worker, fact in facts_of(event):
            found.setdefault(worker, []).append(fact)
    return found


def ledger(events: Iterable[Event], as_of: int) -> list[Line]:
    return [
        line
        for worker, facts in sorted(facts_by_worker(events).items())
        for line in lines_of(worker, facts, microseconds(START) + as_of)
    ]


def test_two_thousand_jobs_cost_with_the_overhead_what_the_fleet_costs() -> None:
    made = history(1, workers=120, jobs=2000)

    lines = ledger(made.events, 14 * HOUR)

    total = sum(line.micro_usd or 0 for line in lines)
    worker_days = len({(line.worker, line.day) for line in lines})
    assert abs(total - made.bill(14 * HOUR)) <= worker_days / 2  # a rounding of half a micro-USD for each day
    assert sum(line.micro_usd or 0 for line in lines if line.purpose == "job") > 0
    assert all((line.micro_usd or 0) >= 0 for line in lines)


@given(st.integers(0, 10**9), st.integers(1, 4), st.integers(0, 25), st.integers(1, 14))
def test_shares_and_overhead_are_the_bill_in_any_order_and_with_any_repetition(
    seed: int, workers: int, jobs: int, hours: int
) -> None:
    made = history(seed, workers=workers, jobs=jobs)
    chance = random.Random(seed)
    shuffled = [*made.events, *chance.sample(made.events, k=len(made.events) // 2)]
    chance.shuffle(shuffled)

    lines = ledger(made.events, hours * HOUR)

    assert ledger(shuffled, hours * HOUR) == lines
    worker_days = len({(line.worker, line.day) for line in lines})
    assert abs(sum(line.micro_usd or 0 for line in lines) - made.bill(hours * HOUR)) <= worker_days / 2


@given(st.integers(0, 10**9), st.integers(1, 4), st.integers(1, 25), st.integers(1, 12), st.integers(1, 10**11))
def test_what_a_run_cost_stays_the_same_while_its_worker_goes_on(
    seed: int, workers: int, jobs: int, hours: int, later: int
) -> None:
    made = history(seed, workers=workers, jobs=jobs, clocks_agree=True)
    first, second = hours * HOUR, hours * HOUR + later
    over = {
        (event.data.job_id, event.data.restarts)
        for event in made.events
        if isinstance(event.data, JobFact) and event.data.ended_at is not None and event.time <= at(first)
    }

    before, after = (
        ledger((each for each in made.events if each.time <= at(until)), until) for until in (first, second)
    )

    costs = [
        {
            (line.day, line.worker, line.job_id, line.run): line.micro_usd
            for line in lines
            if (line.job_id, int(line.run.partition(".")[2] or 0)) in over
        }
        for lines in (before, after)
    ]
    assert costs[0] == costs[1]


@given(st.lists(st.integers(0, 10**16), max_size=30))
def test_rounded_amounts_add_up_to_the_rounded_total(charges: list[int]) -> None:
    rounded = to_micro_usd(charges)

    assert sum(rounded) == (sum(charges) + CHARGES_PER_MICRO_USD // 2) // CHARGES_PER_MICRO_USD
    for amount, charge in zip(rounded, charges, strict=True):
        assert abs(amount * CHARGES_PER_MICRO_USD - charge) < CHARGES_PER_MICRO_USD


def test_a_job_pays_the_largest_of_its_parts_and_the_rest_is_overhead() -> None:
    worker = ModelWorker("xs-1", 0, 2 * HOUR, [(0, 1_000_000)], cpus=4)
    events = worker_events(worker) + job_events(1, 0, ("xs-1",), (HOUR // 2, HOUR), (1, 4000))

    lines = {line.purpose: line.micro_usd for line in ledger(events, 5 * HOUR)}

    # 4000 of 8000 MiB for half an hour; it registered after two seconds.
    assert lines == {"job": 250_000, "boot": 556, "idle": 1_749_444}


def test_jobs_that_have_more_than_the_whole_worker_pay_in_proportion() -> None:
    worker = ModelWorker("xs-1", 0, HOUR, [(0, 1_000_000)], cpus=4)
    events = (
        worker_events(worker)
        + job_events(1, 0, ("xs-1",), (0, HOUR), (4, 100))
        + job_events(2, 0, ("xs-1",), (0, HOUR), (1, 8000))
    )

    lines = ledger(events, HOUR)

    assert [(line.job_id, line.micro_usd) for line in lines if line.micro_usd] == [("1", 500_000), ("2", 500_000)]


def test_a_run_that_was_requeued_ends_where_the_next_one_was_queued() -> None:
    worker = ModelWorker("xs-1", 0, None, [(0, 1_000_000)], cpus=1)
    first = job_events(1, 0, ("xs-1",), (0, None), (1, 100))
    again = job_events(1, 1, ("xs-1",), (HOUR, 2 * HOUR), (1, 100))
    (_, run), *_ = facts_of(first[0])
    assert isinstance(run, Run)
    superseded = Superseded(job_id=run.job_id, submitted_at=run.submitted_at, restarts=0, at=START + timedelta(hours=1))
    facts = [*facts_by_worker([*worker_events(worker), *first, *again])["xs-1"], superseded]

    lines = lines_of("xs-1", facts, microseconds(START) + 2 * HOUR)

    assert [(line.run[-1], line.micro_usd) for line in lines if line.purpose == "job"] == [
        ("0", 1_000_000),
        ("1", 1_000_000),
    ]


def test_an_unknown_price_is_unknown_and_not_zero() -> None:
    worker = ModelWorker("xs-1", 0, HOUR, [], cpus=1)
    events = worker_events(worker) + job_events(1, 0, ("xs-1",), (0, HOUR), (1, 100))

    (line,) = [line for line in ledger(events, HOUR) if line.purpose == "job"]

    assert (line.micro_usd, line.unknown) == (None, True)


def test_a_job_that_outlives_its_worker_pays_until_the_worker_was_gone() -> None:
    worker = ModelWorker("xs-1", 0, HOUR, [(0, 1_000_000)], cpus=1)
    events = worker_events(worker) + job_events(1, 0, ("xs-1",), (0, None), (1, 100))

    lines = ledger(events, 9 * HOUR)

    assert sum(line.micro_usd or 0 for line in lines if line.job_id == "1") == 1_000_000


def test_a_machine_costs_money_from_its_launch_and_not_before() -> None:
    worker = ModelWorker("xs-1", 0, HOUR, [(0, 1_000_000)], cpus=1)
    events = worker_events(worker)
    price = events[2].data.model_copy(update={"billable_from": START + timedelta(minutes=30)})

    lines = ledger([*events[:2], told(price, "1", 0), *events[3:]], HOUR)

    assert sum(line.micro_usd or 0 for line in lines) == 500_000


def test_the_present_rates_of_runs_are_their_shares_of_the_price() -> None:
    worker = ModelWorker("xs-1", 0, None, [(0, 1_000_000)], cpus=4)
    events = worker_events(worker) + job_events(1, 0, ("xs-1",), (0, None), (1, 100))

    rates = rates_at(facts_by_worker(events)["xs-1"], microseconds(START) + HOUR)

    told_rates = [(rate.run.job_id if rate.run else "", rate.micro_usd_per_hour) for rate in rates]
    assert told_rates == [("1", 250_000), ("", 750_000)]
