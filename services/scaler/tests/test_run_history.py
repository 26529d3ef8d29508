"""What snapshots teach of run times, and how it is kept."""

from clusterra_contracts.queue import QueueSnapshot, RunningJob
from clusterra_scaler.planner.estimates import run_time_model as learned
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.estimates.run_time_model import Key, Learned
from clusterra_scaler.planner.estimates.run_times import Traits
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.records import packed_history, unpacked_history
from fleet_examples import at, group, running, snapshot
from structlog.testing import capture_logs

HOUR = 3600.0
WIDEST = Key(limit_class=16)


def look(second: float, *runs: RunningJob, waits: tuple[str, ...] = ()) -> QueueSnapshot:
    return snapshot(tuple(group(job_id) for job_id in waits), runs, taken=second)


def ended(history: RunHistory) -> int:
    return sum(sum(row.ended) for row in history.counts.histories if row.key == WIDEST)


def reached(history: RunHistory) -> int:
    return sum(row.reached[0] for row in history.counts.histories if row.key == WIDEST)


def test_what_runs_no_more_has_ended() -> None:
    history = RunHistory()
    history.see(look(10, running("1", "a"), running("2", "a")))
    assert (reached(history), ended(history)) == (2, 0)
    history.see(look(20, running("2", "a")))
    assert (reached(history), ended(history)) == (2, 1)


def test_what_waits_again_was_stopped() -> None:
    history = RunHistory()
    history.see(look(10, running("1_7", "a")))
    history.see(look(20, waits=("1_7",)))
    assert (reached(history), ended(history)) == (1, 0)


def test_a_task_that_ends_is_no_matter_of_those_that_wait() -> None:
    history = RunHistory()
    history.see(look(10, running("1_7", "a"), waits=("1",)))
    history.see(look(20, waits=("1",)))
    assert ended(history) == 1


def test_lists_that_could_not_be_read_and_older_ones_teach_nothing() -> None:
    history = RunHistory()
    history.see(look(10, running("1", "a")))
    history.see(snapshot((), None, taken=20))
    history.see(look(5))
    assert ended(history) == 0
    history.see(look(30))
    assert ended(history) == 1


def test_the_next_scaler_goes_on_and_does_not_guess_when_jobs_ended() -> None:
    history = RunHistory()
    history.see(look(10, running("1", "a"), running("2", "a")))
    history.see(look(20, running("2", "a"), running("3", "a")))
    again = unpacked_history(packed_history(history))
    assert again.counts == history.counts
    again.see(look(HOUR, running("3", "a")))
    assert (reached(again), ended(again)) == (3, 1)
    again.see(look(2 * HOUR))
    assert ended(again) == 2


def test_what_cannot_be_read_is_learned_anew() -> None:
    for broken in (b"", b"x" * 100, "text", None):
        with capture_logs() as logs:
            assert unpacked_history(broken).counts.histories == ()
        assert [entry["event"] for entry in logs] == ["run_times_unreadable"]


def test_what_was_learned_is_expected() -> None:
    history = RunHistory()
    job = running("1000", "a")
    for number in range(50):
        begun = job.model_copy(update={"job_id": str(number), "started_at": at(number * 1000.0)})
        history.see(look(number * 1000.0 + 1, begun))
        history.see(look(number * 1000.0 + 301))
    likely = history.ends_within(job, at(0).timestamp(), 600.0)
    assert likely > 0.9 > history.ends_within(job, at(0).timestamp(), 60.0)


def test_histories_fade_and_have_a_bound() -> None:
    counted = Learned(Settings())
    for number in range(learned.FADES_AT + 10):
        counted.begin(str(number), Traits("ada", None, 1, 1.0), 0.0)
        counted.end(str(number), 30.0)
    assert all(row.reached[0] < learned.FADES_AT for row in counted.counts.histories)
    for user in range(learned.MOST_HISTORIES):
        counted.begin(f"u{user}", Traits(str(user), None, 1, 1.0), 0.0)
    kept = counted.counts.histories
    assert len(kept) == learned.MOST_HISTORIES
    assert WIDEST in {row.key for row in kept}, "the widest is used by everybody"
    assert not any(row.key.user == "ada" for row in kept)
    counted.end("u0", 10.0)
