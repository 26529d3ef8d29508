"""How a job's staging goes on: who may, when again, when it is given up, and what the job shows of it. Pure."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.edge_staging import FoundFile, StagingProblem
from clusterra_gateway.files.uploads import PART_BYTES
from clusterra_gateway.staging.copies import BATCH_BYTES, BATCH_FILES, _batch
from clusterra_gateway.staging.staging import (
    FILE_ATTEMPTS,
    GIVE_UP,
    MAX_ERRORS,
    MAX_NAMED,
    MAX_NAMED_BYTES,
    Copied,
    CopiedFile,
    Phase,
    Staging,
    view,
)
from clusterra_gateway.submission.models import JobToSubmit, Submission
from clusterra_gateway.submission.staged_files import Input, Output
from hypothesis import given
from hypothesis import strategies as st

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
INPUT = Input(source="data/x", key="acme/main/users/0/data/x", destination="x", size=3, etag='"0"')
OUTPUT = Output(source="*.txt", destination="outputs/run1")


def staging(phase: Phase = "staging_in", **fields: object) -> Staging:
    return Staging.model_validate(
        {
            "id": "0" * 32,
            "member": "1" * 32,
            "user": SlurmUser(name="ada", uid=20001, gid=20001),
            "job_name": "align",
            "key": "nightly-42",
            "digest": "d",
            "created_at": AT,
            "progressed_at": AT,
            "folder": "run1",
            "inputs": (INPUT,),
            "outputs": (OUTPUT,),
            "phase": phase,
            "job_id": "42",
            **fields,
        }
    )


def test_one_gateway_at_a_time_goes_on() -> None:
    claimed = staging(claimed_by="a", claimed_until=AT + timedelta(seconds=90))

    assert claimed.may_claim("a", AT)
    assert not claimed.may_claim("b", AT)
    assert claimed.may_claim("b", AT + timedelta(seconds=90))
    assert not staging("done").may_claim("a", AT)


@given(st.integers(1, 40))
def test_pauses_grow_and_have_a_bound(attempts: int) -> None:
    paused = staging()

    pauses: list[timedelta] = []
    for _ in range(attempts):
        paused = paused.paused("the edge does not answer", AT)
        assert paused.not_before is not None
        pauses.append(paused.not_before - AT)

    assert pauses == sorted(pauses)
    assert timedelta(seconds=2) <= pauses[0]
    assert pauses[-1] <= timedelta(seconds=300)
    assert not paused.may_claim("a", AT)
    assert view(paused).errors == ("the edge does not answer",)
    assert paused.progressed(AT, phase="waiting").attempts == 0


def test_a_file_is_tried_a_few_times_however_long_the_edge_was_away() -> None:
    away = staging()
    for _ in range(20):
        away = away.paused("the edge does not answer", AT)
    tries = 1

    while not away.last_file_attempt:
        away = away.paused("x: it has changed", AT, by_file=True)
        tries += 1

    assert tries == FILE_ATTEMPTS
    assert not away.progressed(AT).last_file_attempt


@pytest.mark.parametrize("phase", ["submitting", "staging_in", "waiting", "staging_out"])
def test_only_what_does_not_go_on_is_given_up(phase: Phase) -> None:
    limit = GIVE_UP.get(phase)
    old = staging(phase)

    assert not old.expired(AT + timedelta(minutes=14))
    assert old.expired(AT + timedelta(days=300)) is (limit is not None)


@pytest.mark.parametrize(
    ("phase", "failed", "states"),
    [
        ("submitting", 0, ("pending", "pending", "pending")),
        ("staging_in", 0, ("running", "running", "pending")),
        ("waiting", 0, ("pending", "done", "pending")),
        ("staging_out", 0, ("running", "done", "running")),
        ("done", 0, ("done", "done", "done")),
        ("failed", 1, ("failed", "done", "failed")),
    ],
)
def test_the_job_shows_each_direction_and_both_together(
    phase: Phase, failed: int, states: tuple[str, str, str]
) -> None:
    shown = view(staging(phase, staged_out=Copied(failed_files=failed)))

    assert shown.stage_in is not None
    assert shown.stage_out is not None
    assert (shown.state, shown.stage_in.state, shown.stage_out.state) == states


def test_a_job_whose_inputs_failed_has_no_outputs_and_its_errors_are_its_owners() -> None:
    shown = view(staging("failed", staged_in=Copied().failing("data/x: Permission denied")))

    assert (shown.state, shown.failed_files, shown.errors) == ("failed", 1, ("data/x: Permission denied",))
    assert shown.stage_out is not None
    assert shown.stage_out.state == "failed"
    others = shown.without_names()
    assert others.stage_in is not None
    assert (others.failed_files, others.errors, others.stage_in.errors) == (1, (), ())


def test_results_are_named_with_the_rules_that_they_come_from_to_their_owner_alone() -> None:
    copied = Copied().plus(2, 5).with_names([CopiedFile(path="outputs/run1/a", size=2)])
    shown = view(staging("done", staged_out=copied.with_names([CopiedFile(path="outputs/run1/b", size=3)])))
    hidden = shown.without_names()

    assert shown.stage_out is not None
    assert [(each.source, each.destination) for each in shown.stage_out.rules] == [("*.txt", "outputs/run1")]
    assert [(each.path, each.size) for each in shown.stage_out.copied] == [("outputs/run1/a", 2), ("outputs/run1/b", 3)]
    assert hidden.stage_out is not None
    assert (hidden.stage_out.files, hidden.stage_out.rules, hidden.stage_out.copied) == (2, (), ())


@given(st.lists(st.lists(st.text(min_size=1, max_size=1500), max_size=40), max_size=6))
def test_the_names_of_results_have_a_bound(batches: list[list[str]]) -> None:
    copied = Copied()
    for batch in batches:
        copied = copied.with_names([CopiedFile(path=path, size=1) for path in batch])
    named, all_paths = [file.path for file in copied.named], [path for batch in batches for path in batch]

    rest = iter(all_paths)
    assert all(path in rest for path in named), "in their order"
    assert len(named) <= MAX_NAMED
    assert sum(len(json.dumps(path)) for path in named) <= MAX_NAMED_BYTES
    if len(named) < min(len(all_paths), MAX_NAMED):
        assert sum(len(json.dumps(path)) for path in all_paths[: len(named) + 1]) > MAX_NAMED_BYTES


def test_the_names_of_results_count_as_they_are_written() -> None:
    files = [CopiedFile(path=f"{number}" + "\N{GRINNING FACE}" * 100, size=1) for number in range(MAX_NAMED)]
    alone = [CopiedFile(path="\x01" * MAX_NAMED_BYTES, size=1)]

    assert 0 < len(Copied().with_names(files).named) <= MAX_NAMED_BYTES // 1200
    assert Copied().with_names(alone).named == ()


def test_a_record_without_named_results_is_that_of_the_release_before() -> None:
    assert "named" not in staging("done", staged_out=Copied(files=1)).model_dump_json()


@given(st.lists(st.text(max_size=2000), max_size=60))
def test_every_failed_file_counts_and_some_reasons_are_kept(reasons: list[str]) -> None:
    copied = Copied().failing(*reasons)

    assert copied.failed_files == len(reasons)
    assert len(copied.errors) == min(len(reasons), MAX_ERRORS)
    assert all(len(error) <= 400 for error in copied.errors)


FILES = st.one_of(
    st.builds(
        FoundFile,
        path=st.just("a/b"),
        below=st.just("b"),
        pattern=st.just(0),
        modified_ns=st.just(1),
        size=st.integers(0, 2 * PART_BYTES),
    ),
    st.just(StagingProblem(path="l", detail="it is a link")),
)


@given(st.lists(FILES, min_size=1, max_size=80))
def test_batches_hold_all_files_in_order_within_bounds_and_large_ones_alone(
    files: list[FoundFile | StagingProblem],
) -> None:
    left, batches = list(files), list[list[FoundFile | StagingProblem]]()

    while left:
        batches.append(_batch(left))
        del left[: len(batches[-1])]

    assert [file for batch in batches for file in batch] == files
    for batch in batches:
        sizes = [file.size for file in batch if isinstance(file, FoundFile)]
        assert len(batch) <= BATCH_FILES
        assert sum(sizes) <= BATCH_BYTES
        assert len(batch) == 1 or all(size <= PART_BYTES for size in sizes)


def test_a_submission_without_files_is_the_same_request_as_for_earlier_releases() -> None:
    job = JobToSubmit(environment=("A=1",))
    plain = Submission(script="#!/bin/sh\n", job=job)
    staged = Submission.model_validate(
        {**plain.model_dump(), "stage_out": [{"source": "a", "destination": "outputs/"}]}
    )

    assert b"stage_" not in plain.canonical()
    assert plain.canonical().startswith(b'{"script":"#!/bin/sh\\n","job":{"name":"job"')
    assert staged.digest() != plain.digest()
