"""What counts as lost and doubled, from accounting and archived events."""

from datetime import UTC, datetime

from clusterra_contracts.events import Event, JobFact, JobKind, event_of
from clusterra_contracts.identity import ClusterRef
from soak import audit

REF = ClusterRef(tenant="acme", cluster="main")
AT = datetime(2026, 1, 31, tzinfo=UTC)
ACCEPTED = {"soak-1": "11", "soak-2": "12"}


def event(job_id: str, kind: JobKind) -> Event:
    fact = JobFact(
        kind=kind, job_id=job_id, name="soak", user="ada", uid=20001, partition="main", state="", submitted_at=AT
    )
    return event_of("proxy", REF, fact, version="1.0", time=AT)


def test_runs_are_read_from_sacct() -> None:
    runs = audit.runs("11|soak-1|COMPLETED\n12|soak-2|CANCELLED by 0\n")

    assert [(run.job_id, run.state) for run in runs] == [("11", "COMPLETED"), ("12", "CANCELLED")]
    assert audit.unfinished(ACCEPTED, runs, ()) == audit.lost(ACCEPTED, runs, ()) == audit.doubled(runs) == set()


def test_a_job_that_slurm_does_not_know_is_lost() -> None:
    runs = audit.runs("11|soak-1|COMPLETED\n12|other|COMPLETED\n")

    assert audit.lost(ACCEPTED, runs, ()) == {"soak-2"}


def test_a_job_in_the_queue_is_unfinished_and_one_that_only_accounting_has_is_lost() -> None:
    running = audit.runs("11|soak-1|RUNNING\n12|soak-2|NODE_FAIL\n")

    assert audit.unfinished(ACCEPTED, running, running[1:]) == {"soak-2"}
    assert audit.lost(ACCEPTED, running, running[1:]) == {"soak-1"}


def test_slurmctld_loses_what_it_accepted_just_before_a_kill() -> None:
    accepted_at = {"soak-1": 100.0, "soak-2": 80.0, "soak-3": 106.0}

    assert audit.lost_by_slurmctld(accepted_at, accepted_at, [105.0]) == {"soak-1"}


def test_a_key_that_became_two_jobs_is_doubled() -> None:
    runs = audit.runs("11|soak-1|COMPLETED\n12|soak-2|COMPLETED\n13|soak-2|PENDING\n")

    assert audit.doubled(runs) == {"soak-2"}
    assert audit.unknown_to_clients({"soak-1": "11"}, runs) == {"soak-2"}


def test_a_requeued_job_is_doubled_only_if_both_runs_completed() -> None:
    assert audit.doubled(audit.runs("11|soak-1|NODE_FAIL\n11|soak-1|COMPLETED\n")) == set()
    assert audit.doubled(audit.runs("11|soak-1|COMPLETED\n11|soak-1|COMPLETED\n")) == {"soak-1"}


def test_missing_and_doubled_events_are_counted() -> None:
    submitted, ended = event("11", "job.submitted"), event("11", "job.completed")

    assert audit.event_faults({"soak-1": "11"}, [submitted, ended]) == {
        "submit_events_missing": 0,
        "end_events_missing": 0,
        "events_doubled": 0,
    }
    assert audit.event_faults(ACCEPTED, [submitted, submitted, ended]) == {
        "submit_events_missing": 1,
        "end_events_missing": 1,
        "events_doubled": 1,
    }
