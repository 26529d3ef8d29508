"""The version classes on answers that were recorded from a real slurmrestd (see record.py)."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from clusterra_proxy.slurmrestd.accounting_records import AccountingJobs
from clusterra_proxy.slurmrestd.answers import Answer, KillAnswer, Nodes, Pings, States, SubmitAnswer, Users
from clusterra_proxy.slurmrestd.error_codes import error_from_answer
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.versions import VERSIONS, Version
from clusterra_proxy.watch.job_facts import job_event, transitions

RECORDED = Path(__file__).parent / "recorded"

pytestmark = pytest.mark.parametrize("version", VERSIONS, ids=[version.name for version in VERSIONS])


def recorded(version: Version, name: str) -> dict[str, Any]:
    answers: dict[str, dict[str, Any]] = json.loads((RECORDED / f"{version.name}.json").read_text())
    return answers[name]


def parse_recorded[A: Answer](version: Version, name: str, model: type[A]) -> A:
    return model.model_validate(recorded(version, name)["body"])


def recorded_jobs(version: Version, name: str) -> tuple[JobRecord, ...]:
    return parse_recorded(version, name, version.jobs).jobs


def test_each_class_matches_its_recorded_version(version: Version) -> None:
    assert recorded(version, "ping")["body"]["meta"]["plugin"]["data_parser"] == f"data_parser/{version.name}"
    assert version.slurm("ping/") == f"/slurm/{version.name}/ping/"
    assert version.slurmdb("jobs/") == f"/slurmdb/{version.name}/jobs/"


def test_a_finished_job(version: Version) -> None:
    (job,) = recorded_jobs(version, "job")
    assert (job.name, job.state, job.partition, job.cpus, job.node_count) == ("recorded", "COMPLETED", "main", 1, 1)
    assert (job.array, job.array_task_id, job.id) == (None, None, str(job.job_id))
    assert job.user_id is not None
    assert job.parsed_comment.uid == str(job.user_id)
    assert job.parsed_comment.key == "recorded-key"
    assert (job.hosts, job.time_limit, job.exit_code.return_code) == (("w1",), 5, 0)
    assert (job.memory_per_cpu, job.memory_per_node) == (1024, None)
    assert job.stdout_expanded.endswith(f"/recorded_{job.job_id}.out")
    assert "%" not in job.stdout_expanded
    assert job.submit_time is not None
    assert job.started_at is not None
    assert job.end_time is not None
    assert datetime(2025, 1, 1, tzinfo=UTC) < job.submit_time <= job.started_at <= job.end_time


def test_an_array_before_and_after_it_runs(version: Version) -> None:
    (waiting,) = recorded_jobs(version, "waiting_array")
    assert (waiting.id, waiting.is_waiting_array, waiting.array_task_string) == (str(waiting.job_id), True, "0-2%1")
    assert (waiting.array_max_tasks, waiting.started_at) == (1, None)

    tasks = sorted(recorded_jobs(version, "array"), key=lambda task: task.array_task_id or 0)
    assert [task.id for task in tasks] == [f"{waiting.job_id}_{number}" for number in range(3)]
    assert [task.state for task in tasks] == ["COMPLETED", "FAILED", "FAILED"]
    assert [task.exit_code.return_code for task in tasks] == [0, 1, 2]

    events = {(transition.job_id, transition.kind) for task in tasks for transition in transitions(task)}
    assert len(events) == 1 + 2 * 3


def test_a_held_job(version: Version) -> None:
    (held,) = recorded_jobs(version, "held")
    assert (held.hold or held.priority == 0, held.state_reason, held.started_at) == (True, "JobHeldUser", None)


def test_states(version: Version) -> None:
    rows = {row.job_id: row.state for row in parse_recorded(version, "states", States).jobs}
    (array,) = recorded_jobs(version, "waiting_array")
    assert {f"{array.job_id}_{task}" for task in range(3)} <= rows.keys()
    assert set(rows.values()) <= {("PENDING",), ("RUNNING",), ("COMPLETED",), ("FAILED",), ("CANCELLED",)}


def test_accounting_agrees_with_slurmctld(version: Version) -> None:
    finished = {record.id: record for record in recorded_jobs(version, "array")}
    runs = {
        run.to_job_record(None).id: run.to_job_record(None)
        for run in parse_recorded(version, "accounting", AccountingJobs).jobs
    }

    assert runs.keys() == finished.keys()

    for job_id, run in runs.items():
        record = finished[job_id]
        assert run.user_id is None
        known = record.model_copy(update={"user_id": None, "state_reason": run.state_reason})
        assert transitions(run) == transitions(known)
        for transition in transitions(run):
            event = job_event(transition, known, "someone")
            # Accounting says not how much memory a job had of each node.
            without_memory = event.fact.model_copy(update={"memory_mib": None})
            assert job_event(transition, run, "someone") == replace(event, fact=without_memory)
        assert (run.comment, run.hosts, run.cpus) == (record.comment, record.hosts, record.cpus)


def test_nodes(version: Version) -> None:
    answer = parse_recorded(version, "nodes", Nodes)
    (node,) = answer.nodes
    assert (node.name, node.cpus, node.real_memory, node.features) == ("w1", 4, 8000, ("general",))
    assert node.slurmd_start_time is not None
    assert answer.last_update is not None


def test_submit_and_kill(version: Version) -> None:
    assert parse_recorded(version, "submit", SubmitAnswer).job_id > 0
    assert [status.error.code for status in parse_recorded(version, "kill", KillAnswer).status] == [2017]


def test_privileged_users(version: Version) -> None:
    privileged = {user.name for user in parse_recorded(version, "users", Users).users if user.privileged}
    assert privileged == {"root", "clusterra-operator"}


def test_slurmctld_responds(version: Version) -> None:
    answer = parse_recorded(version, "ping", Pings)
    assert [ping.responding for ping in answer.pings] == [True]
    assert answer.meta.slurm.release


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("unknown_job", "not_found"),
        ("unknown_node", "not_found"),
        ("bad_token", "unauthenticated"),
        ("bad_feature", "rejected"),
    ],
)
def test_recorded_errors_have_these_kinds(version: Version, name: str, kind: str) -> None:
    answer = parse_recorded(version, name, Answer)
    assert error_from_answer(recorded(version, name)["status"], answer.errors, entity="job").error.kind == kind
