from clusterra_contracts.identity import now
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.answers import StateRow
from clusterra_proxy.slurmrestd.records import JobRecord
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, job, task, waiting_array


def state_rows(*states: tuple[str, str]) -> list[StateRow]:
    return [StateRow(job_id=job_id, state=tuple(state.split("+"))) for job_id, state in states]


def job_table(*records: JobRecord, asked: float = 0) -> JobTable:
    made = JobTable()
    made.replace(records, at(asked))
    return made


def test_only_what_is_new_or_different_is_to_be_read() -> None:
    table = job_table(job(1), job(2, "RUNNING"), job(3, "COMPLETED"))
    diff = table.apply_states(
        state_rows(("1", "RUNNING"), ("2", "RUNNING"), ("3", "COMPLETED"), ("4", "PENDING")), at(1)
    )
    assert diff.changed == {1, 4}
    assert diff.removed == ()


def test_a_flag_is_a_difference() -> None:
    table = job_table(job(1, "COMPLETED+COMPLETING"))
    assert table.apply_states(state_rows(("1", "COMPLETED+COMPLETING")), at(1)).changed == frozenset()
    assert table.apply_states(state_rows(("1", "COMPLETED")), at(2)).changed == {1}


def test_what_is_not_there_any_more_is_gone() -> None:
    table = job_table(job(1), job(2))
    assert [record.id for record in table.apply_states(state_rows(("2", "PENDING")), at(1)).removed] == ["1"]
    assert [record.id for record in table] == ["2"]
    assert table.job("1") == ()


def test_what_was_read_after_the_look_began_is_not_missed_by_it() -> None:
    table = job_table()
    table.put(job(5), at(10))
    assert table.apply_states([], at(9)).removed == ()
    assert table.apply_states(state_rows(("5", "RUNNING")), at(9)).changed == frozenset()
    assert [record.id for record in table.apply_states([], at(11)).removed] == ["5"]


def test_an_older_answer_replaces_nothing() -> None:
    table = job_table()
    table.put(job(5, "RUNNING"), at(10))
    table.put(job(5), at(9))
    assert [record.state for record in table] == ["RUNNING"]


def test_the_tasks_of_an_array_that_wait_are_counted_by_their_states() -> None:
    table = job_table(waiting_array(9, "0-1,3,..."))
    (array,) = table
    assert table.waiting_tasks(array) == (0, 1, 3)
    assert (
        table.apply_states(state_rows(*((f"9_{task}", "PENDING") for task in range(5))), at(1)).changed == frozenset()
    )
    assert table.waiting_tasks(array) == (0, 1, 2, 3, 4)


def test_tasks_that_start_get_records_of_their_own() -> None:
    table = job_table(waiting_array(9, "0-2"))
    diff = table.apply_states(state_rows(("10_0", "RUNNING"), ("9_1", "PENDING"), ("9_2", "PENDING")), at(1))
    assert diff.changed == {10}
    table.put(task(10, 9, 0), at(2))
    assert table.cancelled_tasks(at(1)) == ()
    assert [record.id for record in table.job("9_0")] == ["9_0"]
    assert [record.id for record in table.job("9_1")] == ["9"]
    assert table.job("9_7") == ()
    assert {record.id for record in table.job("9")} == {"9", "9_0"}
    # The last task goes on in the record of the array.
    table.put(task(11, 9, 1, "COMPLETED"), at(3))
    table.put(task(9, 9, 2), at(3))
    assert {record.id for record in table.job("9")} == {"9_0", "9_1", "9_2"}


def test_a_task_that_waits_no_more_and_has_no_record_was_cancelled() -> None:
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


def test_a_read_that_shows_fewer_tasks_waits_for_the_next_look() -> None:
    table = job_table(waiting_array(9, "0-2"))
    table.put(waiting_array(9, "0,2"), at(1))
    assert [record.id for record in table.job("9_1")] == ["9"]
    # The task may have begun after the look that is under way.
    assert table.cancelled_tasks(at(2)) == ()
    requested_at = now()
    assert table.apply_states(state_rows(("9_0", "PENDING"), ("9_2", "PENDING")), requested_at).changed == frozenset()
    assert [record.id for record in table.cancelled_tasks(requested_at)] == ["9_1"]


def test_a_whole_array_that_is_cancelled_drops_nothing() -> None:
    table = job_table(waiting_array(9, "0-1"))
    diff = table.apply_states(state_rows(("9_0", "CANCELLED"), ("9_1", "CANCELLED")), at(1))
    assert diff.changed == {9}
    assert table.cancelled_tasks(at(1)) == ()


STATES = ("PENDING", "RUNNING", "COMPLETED")


@given(st.lists(st.dictionaries(st.integers(1, 6), st.sampled_from(STATES)), min_size=1))
def test_reading_what_a_look_names_makes_the_table_what_slurm_has(polls: list[dict[int, str]]) -> None:
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
