"""What the run-time model learns from snapshots, and how it is stored."""

from clusterra_contracts.queue import QueueSnapshot, RunningJob
from clusterra_contracts.shape_fit import new_workers
from clusterra_scaler.planner.estimates.run_history import RunHistory, RunTimeReader
from clusterra_scaler.planner.estimates.run_time_model import FADES_AT, MAX_HISTORIES, HistoryKey, RunTimeModel
from clusterra_scaler.planner.estimates.run_times import Traits
from clusterra_scaler.planner.estimates.settings import LearningSettings
from clusterra_scaler.planner.requests.demand import demand_of
from clusterra_scaler.records import packed_history, unpacked_history
from fleet_examples import CATALOGUE, at, group, running, snapshot
from structlog.testing import capture_logs

HOUR = 3600.0
WIDEST = HistoryKey(limit_class=16)


def queue_at(second: float, *runs: RunningJob, waits: tuple[str, ...] = ()) -> QueueSnapshot:
    return snapshot(tuple(group(job_id) for job_id in waits), runs, taken=second)


def ended(history: RunHistory) -> int:
    return sum(sum(row.ended) for row in history.counts.histories if row.key == WIDEST)


def reached(history: RunHistory) -> int:
    return sum(row.reached[0] for row in history.counts.histories if row.key == WIDEST)


def test_a_job_that_left_the_queue_has_ended() -> None:
    history = RunHistory()
    history.observe(queue_at(10, running("1", "a"), running("2", "a")))
    assert (reached(history), ended(history)) == (2, 0)
    history.observe(queue_at(20, running("2", "a")))
    assert (reached(history), ended(history)) == (2, 1)


def test_a_requeued_job_is_censored() -> None:
    history = RunHistory()
    history.observe(queue_at(10, running("1_7", "a")))
    history.observe(queue_at(20, waits=("1_7",)))
    assert (reached(history), ended(history)) == (1, 0)


def test_a_task_that_left_the_queue_has_ended_while_others_wait() -> None:
    history = RunHistory()
    history.observe(queue_at(10, running("1_7", "a"), waits=("1",)))
    history.observe(queue_at(20, waits=("1",)))
    assert ended(history) == 1


def test_unreadable_and_older_snapshots_are_ignored() -> None:
    history = RunHistory()
    history.observe(queue_at(10, running("1", "a")))
    history.observe(snapshot((), None, taken=20))

    history.observe(queue_at(5))
    assert ended(history) == 0

    history.observe(queue_at(30))
    assert ended(history) == 1


def test_the_next_scaler_continues_and_censors_jobs_that_left_meanwhile() -> None:
    history = RunHistory()
    history.observe(queue_at(10, running("1", "a"), running("2", "a")))
    history.observe(queue_at(20, running("2", "a"), running("3", "a")))

    again = unpacked_history(packed_history(history))
    assert again.counts == history.counts

    again.observe(queue_at(HOUR, running("3", "a")))
    assert (reached(again), ended(again)) == (3, 1)

    again.observe(queue_at(2 * HOUR))
    assert ended(again) == 2


def test_an_unreadable_stored_history_is_replaced_by_an_empty_one() -> None:
    for broken in (b"", b"x" * 100, "text", None):
        with capture_logs() as logs:
            assert unpacked_history(broken).counts.histories == ()
        assert [entry["event"] for entry in logs] == ["run_times_unreadable"]


def test_the_estimate_follows_the_observed_run_times() -> None:
    history = RunHistory()
    job = running("1000", "a")
    for number in range(50):
        begun = job.model_copy(update={"job_id": str(number), "started_at": at(number * 1000.0)})
        history.observe(queue_at(number * 1000.0 + 1, begun))
        history.observe(queue_at(number * 1000.0 + 301))

    likely = history.ends_within(job, at(0).timestamp(), 600.0)

    assert likely > 0.9 > history.ends_within(job, at(0).timestamp(), 60.0)


def test_histories_are_halved_and_their_number_is_bounded() -> None:
    model = RunTimeModel(LearningSettings())
    for number in range(FADES_AT + 10):
        model.begin(str(number), Traits("ada", None, 1, 1.0), 0.0)
        model.end(str(number), 30.0)
    assert all(row.reached[0] < FADES_AT for row in model.counts.histories)

    for user in range(MAX_HISTORIES):
        model.begin(f"u{user}", Traits(str(user), None, 1, 1.0), 0.0)
    kept = model.counts.histories
    assert len(kept) == MAX_HISTORIES
    assert WIDEST in {row.key for row in kept}, "the widest history is used by every job"
    assert not any(row.key.user == "ada" for row in kept)

    model.end("u0", 10.0)


def test_a_reader_answers_as_the_history() -> None:
    history = RunHistory()
    job = running("2", "a")
    waiting = group("1", time_limit_seconds=HOUR)
    history.observe(snapshot((waiting,), (job,), taken=10))
    demand = demand_of([waiting], new_workers(CATALOGUE))
    reader = RunTimeReader(history)

    before = reader.of_pending(demand)

    assert before == history.of_pending(demand) == reader.of_pending(demand)
    assert reader.of_running(job, at(20).timestamp()) == history.of_running(job, at(20).timestamp())
