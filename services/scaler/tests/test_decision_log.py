"""The decision log can be replayed, has a bounded size, and never delays a decision."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import queue_world
from clusterra_contracts.identity import ClusterRef
from clusterra_planner_tools.cli import command
from clusterra_planner_tools.replay import replay
from clusterra_scaler.decisions.log import FILES, RECORDS, DecisionLog, decision_log
from clusterra_scaler.decisions.record import RECORD, DecisionInputs, DecisionOutput, DecisionRecord
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from edge_model import BootFaults
from fleet_examples import START, at, binding, edge, group, node, observation, snapshot, worker
from queue_world import Faults, World
from slurm_model import Job
from structlog.testing import capture_logs
from typer.testing import CliRunner

ACME = ClusterRef(tenant="acme", cluster="c1")


def record(job_id: str = "1", cluster: ClusterRef = ACME, now: float = 1000.0) -> DecisionRecord:
    """The record of a decision for one pending job."""
    nodes = (node("general-xs-1"),)
    view = observation(snapshot((group(job_id, cpus=2),), nodes=nodes), edge(worker("general-xs-1")), now=now)
    given = DecisionInputs(view, FleetState.initial(START), ObservationHistory())
    return DecisionRecord(cluster, False, given, DecisionOutput.of(given.decide()))


def lines_of(*records: DecisionRecord) -> list[bytes]:
    return [RECORD.dump_json(each, by_alias=True) + b"\n" for each in records]


def run_replay(file: Path, *options: str) -> tuple[int, str, str]:
    """Run `clusterra-planner replay`, and return its exit code, output and error output."""
    done = CliRunner().invoke(command, ["replay", str(file), *options])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("policy", ["family", "packing"])
def test_all_decisions_of_a_simulated_history_replay_equal(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[DecisionRecord] = []

    def recording_decide(
        view: Observation, state: FleetState, observation_history: ObservationHistory, history: RunHistory
    ) -> Decision:
        decision = decide(view, state, observation_history, history)
        given = DecisionInputs(view, state, observation_history, history.counts)
        records.append(DecisionRecord(ACME, False, given, DecisionOutput.of(decision)))
        return decision

    monkeypatch.setattr(queue_world, "decide", recording_decide)
    random = Random(7)
    jobs = [
        Job(submitted=random.randint(0, 140), cpus=random.randint(1, 8), memory_mib=4096, runs=5) for _ in range(40)
    ]
    jobs.sort(key=lambda job: job.submitted)
    faults = Faults(
        null_list=0.05, torn_snapshot=0.2, failed_call=0.3, crash=0.01, takeover=0.02, boots=BootFaults(never=0.1)
    )
    policy_binding = binding(name=policy, idle_seconds=0.0, max_workers=6, boot_timeout_seconds=25, ghost_seconds=30)

    World(jobs, policy_binding, random, faults).run(150, 3000)
    lines = lines_of(*records)
    done = replay(lines, lambda found: None)

    assert sum(bool(each.decided.changes) for each in records) > 20
    assert {each.request for one in records for each in one.decided.actions} == {
        "slurm.drain.v1",
        "slurm.undrain.v1",
        "slurm.delete-node.v1",
    }
    assert [RECORD.validate_json(line) for line in lines] == records
    assert (done.decisions, done.different, done.bad) == (len(records), 0, [])


@pytest.fixture
def log_with_a_difference(tmp_path: Path) -> Path:
    """A log of two decisions. In the second, more replicas were logged than are decided now."""
    changed: dict[str, Any] = json.loads(lines_of(record())[0])
    changed["decided"]["state"]["targets"][0]["replicas"] += 2
    file = tmp_path / "log.jsonl"
    file.write_bytes(lines_of(record())[0] + json.dumps(changed).encode() + b"\n")
    return file


def test_a_difference_is_reported(log_with_a_difference: Path) -> None:
    file = log_with_a_difference

    code, out, _ = run_replay(file)

    assert code == 1
    assert out.splitlines() == [
        f"{file}:2: acme.c1 at 2026-03-01T12:16:40+00:00: state.targets[0].replicas: 3 was logged, 1 is decided now",
        f"{file}: 1 of 2 decisions are the same; 0 lines are not decisions",
    ]


def test_a_difference_is_reported_as_json(log_with_a_difference: Path) -> None:
    code, out, _ = run_replay(log_with_a_difference, "--json")

    report = json.loads(out)
    assert code == 1
    assert (report["decisions"], report["same"], report["different"], report["bad"]) == (2, 1, 1, [])
    assert (report["differences"][0]["path"], report["differences"][0]["line"]) == ("state.targets[0].replicas", 2)


def test_unreadable_lines_are_reported_and_the_others_replayed(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    (line,) = lines_of(record())
    file.write_bytes(b"\n".join([line[:100], b"", b"{}", b"\xff", line]))

    code, out, err = run_replay(file)

    assert code == 0
    assert out == f"{file}: 1 of 1 decisions are the same; 3 lines are not decisions\n"
    assert [each.partition(": ")[0] for each in err.splitlines()] == [f"{file}:{number}" for number in (1, 3, 4)]
    assert "cluster: Field required" in err


@pytest.mark.parametrize("content", [None, b"", b"{}\n"])
def test_a_file_without_a_decision_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "log.jsonl"
    if content is not None:
        file.write_bytes(content)
    assert run_replay(file)[0] == 1


def test_unknown_fields_of_later_versions_are_ignored() -> None:
    line = json.loads(lines_of(record())[0])
    line["given"]["weather"] = {"learned": 1}
    assert RECORD.validate_json(json.dumps(line)) == record()


def test_each_cluster_has_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    other = ClusterRef(tenant="acme", cluster="c2")

    with decision_log(tmp_path / "new" / "log", 1024 * 1024) as log:
        assert log is not None
        for each in (record("1"), record("2", other), record("3")):
            log.append(each)

    files = {file.name: file for file in (tmp_path / "new" / "log").iterdir()}
    assert set(files) == {"acme.c1.jsonl", "acme.c2.jsonl"}
    assert files["acme.c1.jsonl"].read_bytes() == b"".join(lines_of(record("1"), record("3")))
    assert {file.stat().st_mode & 0o777 for file in files.values()} == {0o600}
    assert run_replay(files["acme.c1.jsonl"])[0] == 0


def test_the_total_size_is_bounded(tmp_path: Path) -> None:
    size = len(lines_of(record())[0])
    most = FILES * 3 * size + size // 2
    clusters = [ClusterRef(tenant="acme", cluster=f"c{number}") for number in range(4)]

    for process in range(2):
        with decision_log(tmp_path, most) as log:
            assert log is not None
            for number in range(50):
                log.append(record(str(1000 + number), clusters[number % 4], 1000.0 + 100 * process + number))
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= most

    newest = (tmp_path / "acme.c1.jsonl").read_bytes().splitlines()
    assert RECORD.validate_json(newest[-1]).given.observation.now == at(1149)
    for file in tmp_path.iterdir():
        assert file.stat().st_size <= most // FILES
        assert run_replay(file)[0] == 0


def test_there_is_no_log_without_a_directory() -> None:
    with decision_log(None, 1) as log:
        assert log is None


def test_records_that_cannot_be_written_are_counted_with_one_warning(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    before = RECORDS.labels("left_out")._value.get()

    with capture_logs() as logs, decision_log(blocked, 1024) as log:
        assert log is not None
        for _ in range(3):
            log.append(record())

    assert RECORDS.labels("left_out")._value.get() == before + 3
    assert [each["event"] for each in logs] == ["decision_not_logged"]


def test_a_slow_disk_loses_records_but_delays_nothing(tmp_path: Path) -> None:
    before = RECORDS.labels("left_out")._value.get()
    log = DecisionLog(tmp_path, 1024 * 1024)

    for _ in range(100):  # no thread writes
        log.append(record())

    assert 0 < RECORDS.labels("left_out")._value.get() - before < 100


def test_a_record_after_an_incomplete_line_begins_a_new_line(tmp_path: Path) -> None:
    file = tmp_path / "acme.c1.jsonl"
    file.write_bytes(b'{"cluster": {"ten')

    with decision_log(tmp_path, 1024 * 1024) as log:
        assert log is not None
        log.append(replace(record(), shadow=True))

    code, out, _ = run_replay(file)
    assert (code, out) == (0, f"{file}: 1 of 1 decisions are the same; 1 lines are not decisions\n")
