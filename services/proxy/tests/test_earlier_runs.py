"""A list has a job once, with its last run, and keeps other jobs that had the same id."""

from clusterra_proxy.requests.earlier_runs import without_earlier_runs
from job_records import job, task


def test_a_job_that_was_put_back_after_its_end_is_listed_with_its_last_run() -> None:
    cancelled = job(23, "CANCELLED")
    completed = job(23, "COMPLETED", submit=70, restart_cnt=1)
    other = job(24, "CANCELLED")

    assert without_earlier_runs([completed, cancelled, other]) == (completed, other)
    assert without_earlier_runs([cancelled, other, completed]) == (other, completed)


def test_each_of_several_runs_but_the_last_is_left_out() -> None:
    runs = [job(23, "FAILED", submit=number, restart_cnt=number) for number in range(4)]
    waiting = job(23, submit=9, restart_cnt=4)

    assert without_earlier_runs([*runs, waiting]) == (waiting,)


def test_another_job_with_the_same_id_stays() -> None:
    of_another_name = job(23, "CANCELLED", name="fit")
    of_another_user = job(23, "CANCELLED", user_id=5002)
    not_put_back = job(23, "COMPLETED", submit=70)

    for before in (of_another_name, of_another_user):
        after = job(23, "COMPLETED", submit=70, restart_cnt=1)
        assert without_earlier_runs([before, after]) == (before, after)
    assert without_earlier_runs([job(23, "CANCELLED"), not_put_back]) == (job(23, "CANCELLED"), not_put_back)


def test_tasks_of_an_array_are_told_apart() -> None:
    first, second = task(31, 30, 1, "FAILED"), task(32, 30, 2, "COMPLETED", submit=70, restart_cnt=1)

    assert without_earlier_runs([first, second]) == (first, second)
    assert without_earlier_runs([]) == ()
