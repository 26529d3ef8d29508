from clusterra_contracts.identity import now
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.answers import StateRow
from clusterra_proxy.slurmrestd.records import JobRecord
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, job, task, waiting_array


def state_rows(*states: tuple[str, str]) -> tuple[StateRow, ...]:
    return tuple(StateRow(job_id=job_id, state=tuple(state.split("+"))) for job_id, state in states)


def job_table(*records: JobRecord) -> JobTable:
    """A table with these records, requested at second 0."""
    table = JobTable()
    table.replace(records, at(0))
    return table


def test_new_records_and_changed_states_are_to_be_read() -> None:
    table = job_table(job(1), job(2, "RUNNING"), job(3, "COMPLETED"))
    diff = table.apply_states(
        state_rows(("1", "RUNNING"), ("2", "RUNNING"), ("3", "COMPLETED"), ("4", "PENDING")), at(1)
    )
    assert diff.changed == {1, 4}
    assert diff.removed == ()


def test_the_same_states_are_compared_again_only_after_something_else_has_changed() -> None:
    table = job_table(job(1), job(2, "RUNNING"))
    states = state_rows(("1", "PENDING"), ("2", "RUNNING"))

    assert not table.apply_states(states, at(1)).changed
    assert not table.apply_states(states, at(2)).changed

    # A record that was read on behalf of a request, while the poll was on its way.
    table.put(job(1, "RUNNING"), at(4))
    assert not table.apply_states(states, at(3)).changed
    assert table.apply_states(states, at(5)).changed == {1}

    # A record that slurmctld never listed.
    table.put(job(1), at(6))
    table.put(job(3), at(6))
    assert [record.id for record in table.apply_states(states, at(7)).removed] == ["3"]


records = st.one_of(
    st.builds(job, st.integers(1, 4), st.sampled_from(["PENDING", "RUNNING", "COMPLETED"])),
    st.builds(waiting_array, st.integers(5, 6), st.sampled_from(["0-2", "1,2", "2"])),
    st.builds(task, st.integers(7, 8), st.integers(5, 6), st.integers(0, 2)),
)
rows = st.lists(
    st.tuples(
        st.sampled_from(["1", "2", "3", "4", "5_0", "5_1", "5_2", "7_0", "8_1", "?"]),
        st.sampled_from(["PENDING", "RUNNING"]),
    ),
    max_size=6,
    unique_by=lambda row: row[0],
)
steps = st.lists(
    st.one_of(records, st.tuples(st.just("list"), st.lists(records, max_size=3)), st.tuples(st.just("poll"), rows)),
    max_size=12,
)


@given(steps, st.lists(st.integers(0, 2), min_size=24, max_size=24))
def test_the_same_poll_again_shows_what_a_new_one_with_the_same_states_shows(
    steps: list[JobRecord | tuple[str, list[JobRecord] | list[tuple[str, str]]]], late: list[int]
) -> None:
    """`late`: for how many steps each request was under way."""
    table, compared = JobTable(), JobTable()
    polled = state_rows()
    for number, step in enumerate(steps):
        requested_at = at(10 * number - 15 * late[number])
        for each in (table, compared):
            if isinstance(step, JobRecord):
                each.put(step, requested_at)
            elif step[0] == "list":
                each.replace([record for record in step[1] if isinstance(record, JobRecord)], requested_at)
        if isinstance(step, tuple) and step[0] == "poll":
            polled = state_rows(*(row for row in step[1] if isinstance(row, tuple)))
        for again in range(2):
            asked_at = at(10 * number + 5 - 15 * late[-number - 1] + again)

            assert table.apply_states(polled, asked_at) == compared.apply_states(tuple(list(polled)), asked_at)  # noqa: C414
            assert list(table) == list(compared)


def test_a_changed_state_flag_is_a_change() -> None:
    table = job_table(job(1, "COMPLETED+COMPLETING"))
    assert table.apply_states(state_rows(("1", "COMPLETED+COMPLETING")), at(1)).changed == frozenset()
    assert table.apply_states(state_rows(("1", "COMPLETED")), at(2)).changed == {1}


def test_a_job_missing_in_the_states_is_removed() -> None:
    table = job_table(job(1), job(2))
    assert [record.id for record in table.apply_states(state_rows(("2", "PENDING")), at(1)).removed] == ["1"]
    assert [record.id for record in table] == ["2"]
    assert table.job("1") == ()


def test_a_poll_ignores_records_that_were_requested_later() -> None:
    table = job_table()
    table.put(job(5), at(10))
    assert table.apply_states((), at(9)).removed == ()
    assert table.apply_states(state_rows(("5", "RUNNING")), at(9)).changed == frozenset()
    assert [record.id for record in table.apply_states((), at(11)).removed] == ["5"]


def test_an_older_record_does_not_replace_a_newer_one() -> None:
    table = job_table()
    table.put(job(5, "RUNNING"), at(10))
    table.put(job(5), at(9))
    assert [record.state for record in table] == ["RUNNING"]


def test_waiting_tasks_of_a_truncated_record_come_from_the_states() -> None:
    table = job_table(waiting_array(9, "0-1,3,..."))
    (array,) = table

    assert table.waiting_tasks(array) == (0, 1, 3)
    assert (
        table.apply_states(state_rows(*((f"9_{task}", "PENDING") for task in range(5))), at(1)).changed == frozenset()
    )
    assert table.waiting_tasks(array) == (0, 1, 2, 3, 4)


def test_started_tasks_get_records_of_their_own() -> None:
    table = job_table(waiting_array(9, "0-2"))
    diff = table.apply_states(state_rows(("10_0", "RUNNING"), ("9_1", "PENDING"), ("9_2", "PENDING")), at(1))

    assert diff.changed == {10}

    table.put(task(10, 9, 0), at(2))
    assert table.cancelled_tasks(at(1)) == ()
    assert [record.id for record in table.job("9_0")] == ["9_0"]
    assert [record.id for record in table.job("9_1")] == ["9"]
    assert table.job("9_7") == ()
    assert {record.id for record in table.job("9")} == {"9", "9_0"}

    # The last task keeps the record of the array.
    table.put(task(11, 9, 1, "COMPLETED"), at(3))
    table.put(task(9, 9, 2), at(3))

    assert {record.id for record in table.job("9")} == {"9_0", "9_1", "9_2"}


def test_a_task_that_no_longer_waits_and_has_no_record_was_cancelled() -> None:
    table = job_table(waiting_array(9, "0-2"))
    table.apply_states(state_rows(("9_0", "PENDING"), ("9_2", "PENDING")), at(1))
    (cancelled,) = table.cancelled_tasks(at(1))

    assert (cancelled.id, cancelled.state, cancelled.end_time, cancelled.started_at) == (
        "9_1",
        "CANCELLED",
        at(1),
        None,
    )
    assert table.cancelled_tasks(at(2)) == ()
    assert table.job("9_1") == (cancelled,)
    assert {record.id for record in table} == {"9", "9_1"}

    table.replace([], at(3))
    assert list(table) == []


def test_a_record_with_fewer_tasks_cancels_them_only_after_the_next_poll() -> None:
    table = job_table(waiting_array(9, "0-2"))
    table.put(waiting_array(9, "0,2"), at(1))

    assert [record.id for record in table.job("9_1")] == ["9"]
    # The task may have started after the current poll was sent.
    assert table.cancelled_tasks(at(2)) == ()

    requested_at = now()
    assert table.apply_states(state_rows(("9_0", "PENDING"), ("9_2", "PENDING")), requested_at).changed == frozenset()
    assert [record.id for record in table.cancelled_tasks(requested_at)] == ["9_1"]


def test_a_cancelled_array_has_no_separately_cancelled_tasks() -> None:
    table = job_table(waiting_array(9, "0-1"))
    diff = table.apply_states(state_rows(("9_0", "CANCELLED"), ("9_1", "CANCELLED")), at(1))
    assert diff.changed == {9}
    assert table.cancelled_tasks(at(1)) == ()


STATES = ("PENDING", "RUNNING", "COMPLETED")


@given(st.lists(st.dictionaries(st.integers(1, 6), st.sampled_from(STATES)), min_size=1))
def test_reading_the_changed_records_makes_the_table_equal_to_slurm(polls: list[dict[int, str]]) -> None:
    table = JobTable()
    for second, slurm in enumerate(polls):
        before = {record.job_id for record in table}
        diff = table.apply_states(
            state_rows(*((str(number), state) for number, state in slurm.items())), at(10 * second)
        )
        for number in diff.changed:
            table.put(job(number, slurm[number]), at(10 * second + 1))
        assert {record.job_id: record.state for record in table} == slurm
        assert {record.job_id for record in diff.removed} == before - slurm.keys()


def test_tasks_that_slurm_leaves_out_of_a_long_list_still_wait() -> None:
    table = job_table(waiting_array(9, "0-9"))

    table.put(waiting_array(9, "0,2,4,6,..."), at(1))

    (array,) = table
    assert table.waiting_tasks(array) == tuple(range(10))
    assert table.cancelled_tasks(at(5)) == ()


def test_a_started_task_of_a_truncated_list_waits_no_longer() -> None:
    table = job_table(waiting_array(9, "0-9"))
    table.put(task(10, 9, 3), at(1))

    table.put(waiting_array(9, "0,2,4,6,..."), at(1))

    array = next(record for record in table if record.is_waiting_array)
    assert table.waiting_tasks(array) == (0, 1, 2, 4, 5, 6, 7, 8, 9)
    assert table.cancelled_tasks(at(5)) == ()


def test_rows_of_the_states_are_counted_without_reading_them() -> None:
    table = job_table(waiting_array(9, "0-99999:2%7"), task(10, 9, 1), job(11))
    assert table.state_rows == 50_003

    table.replace((job(11),), at(1))

    assert table.state_rows == 1


@given(steps)
def test_the_version_changes_with_all_that_is_read(
    steps: list[JobRecord | tuple[str, list[JobRecord] | list[tuple[str, str]]]],
) -> None:
    def content() -> object:
        return [(record, table.waiting_tasks(record)) for record in table], table.unreadable

    table = JobTable()
    for number, step in enumerate(steps):
        before = table.version, content()

        if isinstance(step, JobRecord):
            table.put(step, at(number))
        elif step[0] == "list":
            table.replace([each for each in step[1] if isinstance(each, JobRecord)], at(number))
        else:
            table.apply_states(state_rows(*(each for each in step[1] if isinstance(each, tuple))), at(number))
            table.cancelled_tasks(at(number))

        assert table.version != before[0] or content() == before[1]


def test_the_tasks_of_an_array_that_are_left_wait_run_or_may_have_started() -> None:
    table = job_table(waiting_array(9, "3-9%4"), task(10, 9, 0), task(11, 9, 1, "COMPLETED"), task(12, 9, 2), job(1))

    assert table.tasks_left(9) == 9
    assert (table.tasks_left(1), table.tasks_left(2)) == (None, None)
    table.put(task(10, 9, 0, "FAILED"), at(1))
    assert table.tasks_left(9) == 8
    # Task 3 no longer waits. Its record is not read yet.
    table.put(waiting_array(9, "4-9%4"), at(2))
    assert table.tasks_left(9) == 8
    table.put(task(13, 9, 3, "COMPLETED"), at(3))
    assert table.tasks_left(9) == 7
    # Task 4 was cancelled while it waited.
    table.put(waiting_array(9, "5-9%4"), at(4))
    assert table.tasks_left(9) == 7
    table.cancelled_tasks(now())
    assert table.tasks_left(9) == 6
    # Task 12 waits again, and the rest is cancelled.
    table.put(task(12, 9, 2, "PENDING", restart_cnt=1), at(5))
    table.put(waiting_array(9, "5-9%4", end=5).model_copy(update={"job_state": ("CANCELLED",)}), at(5))
    assert table.tasks_left(9) == 1
    table.put(task(12, 9, 2, "COMPLETED", restart_cnt=1), at(6))
    assert table.tasks_left(9) == 0


def test_of_an_array_with_a_truncated_list_of_tasks_nobody_knows_how_many_are_left() -> None:
    table = job_table(waiting_array(9, "1,3,5,7,..."), task(10, 9, 0))
    assert table.tasks_left(9) is None

    # The states name all of them.
    waiting = (("9_1", "PENDING"), ("9_3", "PENDING"), ("9_5", "PENDING"), ("9_7", "PENDING"), ("9_9", "PENDING"))
    table.apply_states(state_rows(*waiting, ("10", "RUNNING")), at(1))
    assert table.tasks_left(9) == 6
