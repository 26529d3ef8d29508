"""Pages in any order hold each job once, and a cursor continues behind the last job."""

from datetime import UTC, datetime, timedelta

import pytest
from clusterra_proxy.requests.job_order import JobOrder
from clusterra_proxy.slurmrestd.errors import Invalid
from clusterra_proxy.slurmrestd.records import JobRecord
from hypothesis import given
from hypothesis import strategies as st

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = ("submitted", "started", "ended", "name", "user", "state")


def owner(record: JobRecord) -> str:
    return record.user_name


@st.composite
def records(draw: st.DrawFn) -> list[JobRecord]:
    numbers = draw(st.lists(st.integers(1, 50), unique=True, max_size=20))
    moment = st.none() | st.integers(0, 3).map(lambda days: BEGAN + timedelta(days=days))
    return [
        JobRecord(
            job_id=number,
            name=draw(st.sampled_from(["", "a", "b", "\ud800", "ü.1"])),
            user_name=draw(st.sampled_from(["ada", "grace"])),
            job_state=(draw(st.sampled_from(["PENDING", "RUNNING", "COMPLETED"])),),
            nodes="n1",
            submit_time=draw(moment),
            start_time=draw(moment),
            end_time=draw(moment),
        )
        for number in numbers
    ]


@given(records(), st.sampled_from(FIELDS), st.booleans(), st.integers(1, 7))
def test_all_pages_together_are_the_sorted_list(
    given_records: list[JobRecord], field: str, descending: bool, limit: int
) -> None:
    order = JobOrder(f"-{field}" if descending else field, owner)
    whole, _ = order.page(given_records, None, 1000)

    read: list[JobRecord] = []
    page, cursor = order.page(given_records, None, limit)
    read += page
    while cursor:
        page, cursor = order.page(given_records, cursor, limit)
        assert page
        read += page

    assert read == whole
    assert sorted(record.job_id for record in read) == sorted(record.job_id for record in given_records)
    other_way = JobOrder(field if descending else f"-{field}", owner)
    assert other_way.page(given_records, None, 1000)[0] == whole[::-1]


def test_names_sort_as_text_and_times_as_times() -> None:
    first = JobRecord(job_id=1, name="b", job_state=("PENDING",), submit_time=BEGAN)
    second = JobRecord(job_id=2, name="a", job_state=("PENDING",), submit_time=BEGAN + timedelta(days=1))

    assert JobOrder("name", owner).page([first, second], None, 5)[0] == [second, first]
    assert JobOrder("submitted", owner).page([first, second], None, 5)[0] == [first, second]
    assert JobOrder("-submitted", owner).page([first, second], None, 5)[0] == [second, first]


@pytest.mark.parametrize("cursor", ["x", "W10", "WyItc3VibWl0dGVkIl0", "bnVsbA", "eyJhIjoxfQ", "W1tbW1tb", "é"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid, match="cursor"):
        JobOrder("-submitted", owner).page([], cursor, 5)


def test_a_cursor_of_another_order_is_refused() -> None:
    jobs = [JobRecord(job_id=number, job_state=("PENDING",), submit_time=BEGAN) for number in (1, 2)]
    _, cursor = JobOrder("name", owner).page(jobs, None, 1)

    with pytest.raises(Invalid, match="order 'name'"):
        JobOrder("-name", owner).page(jobs, cursor, 1)


def test_an_unknown_order_names_those_that_exist() -> None:
    with pytest.raises(Invalid) as refused:
        JobOrder("cost", owner)

    assert all(field in refused.value.error.hint for field in FIELDS)
