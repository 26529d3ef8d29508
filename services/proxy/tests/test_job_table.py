from clusterra_contracts.identity import now
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.answers import StateRow
from clusterra_proxy.slurmrestd.records import JobRecord
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, job, task, waiting_array


def rows(*states: tuple[str, str]) -> list[StateRow]:
    return [StateRow(job_id=job_id, state=tuple(state.split("+"))) for job_id, state in states]


def table(*records: JobRecord, asked: float = 0) -> JobTable:
    made = JobTable()
    made.replace(records, at(asked))
    return made


def test_only_what_is_new_or_different_is_to_be_read() -> None:
    known = table(job(1), job(2, "RUNNING"), job(3, "COMPLETED"))
    difference = known.compare(rows(("1", "RUNNING"), ("2", "RUNNING"), ("3", "COMPLETED"), ("4", "PENDING")), at(1))
    assert difference.changed == {1, 4}
    assert difference.gone == ()


def test_a_flag_is_a_difference() -> None:
    known = table(job(1, "COMPLETED+COMPLETING"))
    assert known.compare(rows(("1", "COMPLETED+COMPLETING")), at(1)).changed == frozenset()
    assert known.compare(rows(("1", "COMPLETED")), at(2)).changed == {1}


def test_what_is_not_there_any_more_is_gone() -> None:
    known = table(job(1), job(2))
    assert [record.id for record in known.compare(rows(("2", "PENDING")), at(1)).gone] == ["1"]
    assert [record.id for record in known] == ["2"]
    assert known.job("1") == ()


def test_what_was_read_after_the_look_began_is_not_missed_by_it() -> None:
    known = table()
    known.put(job(5), at(10))
    assert known.compare([], at(9)).gone == ()
    assert known.compare(rows(("5", "RUNNING")), at(9)).changed == frozenset()
    assert [record.id for record in known.compare([], at(11)).gone] == ["5"]


def test_an_older_answer_replaces_nothing() -> None:
    known = table()
    known.put(job(5, "RUNNING"), at(10))
    known.put(job(5), at(9))
    assert [record.state for record in known] == ["RUNNING"]


def test_the_tasks_of_an_array_that_wait_are_counted_by_their_states() -> None:
    known = table(waiting_array(9, "0-1,3,..."))
    (array,) = known
    assert known.waiting_tasks(array) == (0, 1, 3)
    assert known.compare(rows(*((f"9_{task}", "PENDING") for task in range(5))), at(1)).changed == frozenset()
    assert known.waiting_tasks(array) == (0, 1, 2, 3, 4)


def test_tasks_that_start_get_records_of_their_own() -> None:
    known = table(waiting_array(9, "0-2"))
    difference = known.compare(rows(("10_0", "RUNNING"), ("9_1", "PENDING"), ("9_2", "PENDING")), at(1))
    assert difference.changed == {10}
    known.put(task(10, 9, 0), at(2))
    assert known.cancelled_tasks(at(1)) == ()
    assert [record.id for record in known.job("9_0")] == ["9_0"]
    assert [record.id for record in known.job("9_1")] == ["9"]
    assert known.job("9_7") == ()
    assert {record.id for record in known.job("9")} == {"9", "9_0"}
    # The last task goes on in the record of the array.
    known.put(task(11, 9, 1, "COMPLETED"), at(3))
    known.put(task(9, 9, 2), at(3))
    assert {record.id for record in known.job("9")} == {"9_0", "9_1", "9_2"}


def test_a_task_that_waits_no_more_and_has_no_record_was_cancelled() -> None:
    known = table(waiting_array(9, "0-2"))
    known.compare(rows(("9_0", "PENDING"), ("9_2", "PENDING")), at(1))
    (cancelled,) = known.cancelled_tasks(at(1))
    assert (cancelled.id, cancelled.state, cancelled.end_time, cancelled.started) == ("9_1", "CANCELLED", at(1), None)
    assert known.cancelled_tasks(at(2)) == ()
    assert known.job("9_1") == (cancelled,)
    assert {record.id for record in known} == {"9", "9_1"}
    known.replace([], at(3))
    assert list(known) == []


def test_a_read_that_shows_fewer_tasks_waits_for_the_next_look() -> None:
    known = table(waiting_array(9, "0-2"))
    known.put(waiting_array(9, "0,2"), at(1))
    assert [record.id for record in known.job("9_1")] == ["9"]
    # The task may have begun after the look that is under way.
    assert known.cancelled_tasks(at(2)) == ()
    looked_at = now()
    assert known.compare(rows(("9_0", "PENDING"), ("9_2", "PENDING")), looked_at).changed == frozenset()
    assert [record.id for record in known.cancelled_tasks(looked_at)] == ["9_1"]


def test_a_whole_array_that_is_cancelled_drops_nothing() -> None:
    known = table(waiting_array(9, "0-1"))
    difference = known.compare(rows(("9_0", "CANCELLED"), ("9_1", "CANCELLED")), at(1))
    assert difference.changed == {9}
    assert known.cancelled_tasks(at(1)) == ()


STATES = ("PENDING", "RUNNING", "COMPLETED")


@given(st.lists(st.dictionaries(st.integers(1, 6), st.sampled_from(STATES)), min_size=1))
def test_reading_what_a_look_names_makes_the_table_what_slurm_has(looks: list[dict[int, str]]) -> None:
    known = JobTable()
    for second, slurm in enumerate(looks):
        before = {record.job_id for record in known}
        difference = known.compare(rows(*((str(number), state) for number, state in slurm.items())), at(10 * second))
        for number in difference.changed:
            known.put(job(number, slurm[number]), at(10 * second + 1))
        assert {record.job_id: record.state for record in known} == slurm
        assert {record.job_id for record in difference.gone} == before - slurm.keys()
