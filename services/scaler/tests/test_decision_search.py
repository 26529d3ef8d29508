"""A decision is found in the decision log by the desired state that it made, whatever else the log holds."""

import os
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_scaler.decisions import search
from clusterra_scaler.decisions.log import decision_log
from clusterra_scaler.decisions.record import RECORD, DecisionInputs, DecisionOutput, DecisionRecord
from clusterra_scaler.decisions.search import find_record
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import START, group, observation, snapshot
from hypothesis import given
from hypothesis import strategies as st

ACME = ClusterRef(tenant="acme", cluster="c1")


def record(generation: int, job_id: str = "1", ref: ClusterRef = ACME) -> DecisionRecord:
    """The record of the decision that makes a desired state."""
    before = FleetState.initial(START).model_copy(update={"generation": generation - 1})
    given_inputs = DecisionInputs(observation(snapshot((group(job_id, cpus=2),))), before, ObservationHistory())
    return DecisionRecord(ref, False, given_inputs, DecisionOutput.of(given_inputs.decide()))


def without_changes(made: DecisionRecord) -> DecisionRecord:
    """A later record of the same desired state."""
    return replace(made, decided=replace(made.decided, changes=()))


def write(file: Path, *records: DecisionRecord, age: float = 0.0) -> None:
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_bytes(b"".join(RECORD.dump_json(each, by_alias=True) + b"\n" for each in records))
    at = time.time() - age
    os.utime(file, (at, at))


@given(st.integers(1, 9), st.integers(30, 20_000))
def test_each_decision_is_found_whatever_the_size_of_the_pieces(generation: int, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as name:
        patch.setattr(search, "PIECE_BYTES", piece)
        path = Path(name)
        made = [record(number) for number in (1, 2, 3, 5, 6)]
        write(path / "acme.c1.jsonl", *(each for one in made for each in (one, without_changes(one))))

        found = find_record((path,), ACME, generation)

    assert found == next((each for each in made if each.decided.state.generation == generation), None)


def test_rotated_files_and_other_logs_are_read_and_other_clusters_are_not(tmp_path: Path) -> None:
    write(tmp_path / "acme.c1.jsonl", record(9))
    write(tmp_path / "acme.c1.20260301T121640.000000.jsonl", record(4, "8"), age=60)
    write(tmp_path / "acme.c1.20260301T131640.000000.jsonl", record(4, "7"), age=30)
    write(tmp_path / "large" / "acme.c1.jsonl", record(5), age=90)
    write(tmp_path / "acme.c2.jsonl", record(6, ref=ClusterRef(tenant="acme", cluster="c2")))
    write(tmp_path / "acme.c1.20260301T141640.000000.jsonl", record(7, ref=ClusterRef(tenant="acme", cluster="c9")))
    logs = (tmp_path, tmp_path / "large", tmp_path / "none")

    assert find_record(logs, ACME, 4) == record(4, "7")
    assert find_record(logs, ACME, 5) == record(5)
    assert [find_record(logs, ACME, number) for number in (6, 7, 8)] == [None] * 3
    assert find_record((tmp_path,), ACME, 5) is None


def test_a_decision_in_shadow_mode_made_no_desired_state(tmp_path: Path) -> None:
    write(tmp_path / "acme.c1.jsonl", record(4), replace(record(4, "2"), shadow=True))

    assert find_record((tmp_path,), ACME, 4) == record(4)


def test_only_the_wanted_line_is_parsed(tmp_path: Path) -> None:
    write(tmp_path / "acme.c1.jsonl", record(4))
    with (tmp_path / "acme.c1.jsonl").open("ab") as opened:
        opened.write(b'{"cluster": broken\n{"decided":{"state":{"generation":44,"changes":[1]\n')

    assert find_record((tmp_path,), ACME, 4) == record(4)
    assert find_record((tmp_path,), ACME, 44) is None


@pytest.mark.parametrize("bound", ["MAX_BYTES", "MAX_SECONDS", "MAX_LINE_BYTES"])
def test_a_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    write(tmp_path / "acme.c1.jsonl", *(record(number) for number in range(1, 9)))
    monkeypatch.setattr(search, "PIECE_BYTES", 100)
    monkeypatch.setattr(search, bound, -1.0 if bound == "MAX_SECONDS" else 200)

    assert find_record((tmp_path,), ACME, 1) is None


async def test_a_log_finds_what_it_has_written(tmp_path: Path) -> None:
    with decision_log(tmp_path, 1024 * 1024) as log:
        assert log is not None
        log.append(record(4))
    with decision_log(tmp_path / "own", 1024 * 1024, tmp_path) as log:
        assert log is not None
        assert await log.find(ACME, 4) == record(4)
        assert await log.find(ACME, 5) is None
