"""Turns of stagings: one that takes long lets others have theirs, whoever has how many."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from clusterra_contracts.events import Event, JobFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.edge_staging import FetchFiles, FindFiles, MakeFolder, Stage, Staged, StagingProblem
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import FindKey, Submitted
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.files.bounds import Bounds
from clusterra_gateway.files.presigned import SignedUrl
from clusterra_gateway.staging import staging_in, turn
from clusterra_gateway.staging.staging import FILE_ATTEMPTS, Staging
from clusterra_gateway.staging.staging_records import STAGING, UNFINISHED, StagingRecords
from clusterra_gateway.staging.staging_work import StagingSteps
from clusterra_gateway.staging.sweep import (
    ARRAY_SECONDS,
    AT_A_TIME,
    LOOK_SHARE,
    PER_CLUSTER,
    SOON_SECONDS,
    WAITING_SECONDS,
    StagingSweep,
)
from clusterra_gateway.tables import TABLES
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put
from clusterra_runtime.store.table_use import tables_of
from test_staging_state import staging

REF = ClusterRef(tenant="acme", cluster="main")
PAGES = 20


class LinksOnly:
    """An edge whose folder has links alone, in pages of one: nothing of it is copied."""

    def __init__(self) -> None:
        self.asked = 0

    async def stage(self, _ref: ClusterRef, request: Stage) -> Staged:
        assert isinstance(request.work, FindFiles)
        self.asked += 1
        number = int(request.work.after or 0) + 1
        if number > PAGES:
            return Staged(state="done")
        problem = StagingProblem(path=f"{number:04}", detail="it is a link")
        return Staged(state="done", problems=(problem,), after=f"{number:04}" if number < PAGES else None)


async def no_message(*_message: object) -> None:
    """Publishes nothing."""


async def test_a_long_turn_ends_between_two_batches_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "TURN_SECONDS", 0.0)
    edge: Any = LinksOnly()
    nothing: Any = None
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        directory, records = Directory(store, Outbox(store, no_message)), StagingRecords(store)
        monkeypatch.setattr(StagingSteps, "_bucket", _a_bucket)
        steps = StagingSteps(records, directory, (nothing, edge), (nothing, Bounds(60, 60, 1)), "one")
        at = now()
        wanted = staging("staging_out", created_at=at, progressed_at=at)
        await records.create(REF, wanted)

        first = await steps.advance(REF, wanted.id)
        asked, turns = edge.asked, 1
        last = first
        while last is not None and not last.over:
            last = await steps.advance(REF, wanted.id)
            turns += 1

    assert first is not None
    assert (asked, first.cursor, first.claimed_by, first.phase) == (1, "0001", "", "staging_out")
    assert last is not None
    assert (last.phase, last.staged_out.failed_files, turns) == ("failed", PAGES, PAGES + 1)


class AwayFor:
    """A Slurm that is away for some requests, and then has the job of a key, or none."""

    def __init__(self, requests: int, found: Submitted | None) -> None:
        self._left = requests
        self._found = found

    async def find_key(self, _ref: ClusterRef, _request: FindKey) -> Submitted | None:
        self._left -= 1
        if self._left >= 0:
            raise RpcFailed(RpcError(kind="unavailable", detail="it is away"))
        return self._found


@pytest.mark.parametrize(
    ("found", "phases"),
    [
        (Submitted(job_id="7", accepted_at=now()), ["submitting", "staging_in"]),
        (None, ["submitting", "failed"]),
    ],
    ids=["a job", "no job"],
)
async def test_a_submit_is_given_up_only_when_slurm_has_said_that_there_is_no_job(
    found: Submitted | None, phases: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm: Any = AwayFor(1, found)
    nothing: Any = None
    monkeypatch.setattr(StagingSteps, "_stage_in", no_message)
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        directory, records = Directory(store, Outbox(store, no_message)), StagingRecords(store)
        steps = StagingSteps(records, directory, (slurm, nothing), (nothing, Bounds(60, 60, 1)), "one")
        at = now() - timedelta(hours=1)
        wanted = staging("submitting", job_id=None, created_at=at, progressed_at=at)
        await records.create(REF, wanted)

        while_away = await steps.advance(REF, wanted.id)
        stored = await records.read(REF, wanted.id)
        assert stored is not None
        await records.replace(REF, stored, stored.staging.model_copy(update={"not_before": None}))
        after = await steps.advance(REF, wanted.id)

    assert while_away is not None
    assert after is not None
    assert [while_away.phase, after.phase] == phases


class EdgeWithoutBucket:
    """An edge that reaches the bucket after some attempts only."""

    def __init__(self, attempts: int) -> None:
        self._left = attempts

    async def stage(self, _ref: ClusterRef, request: Stage) -> Staged:
        self._left -= isinstance(request.work, FetchFiles)
        if isinstance(request.work, MakeFolder) or self._left < 0:
            return Staged(state="done")
        problem = StagingProblem(path="x", detail="the bucket does not answer", transient=True, outage=True)
        return Staged(state="done", problems=(problem,))


async def test_an_outage_of_the_bucket_is_waited_for_and_counts_against_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outage = 2 * FILE_ATTEMPTS
    edge: Any = EdgeWithoutBucket(outage)
    slurm: Any = Released()
    nothing: Any = None
    monkeypatch.setattr(StagingSteps, "_bucket", _a_bucket)
    monkeypatch.setattr(staging_in, "signed_get", _a_url)
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        directory, records = Directory(store, Outbox(store, no_message)), StagingRecords(store)
        steps = StagingSteps(records, directory, (slurm, edge), (nothing, Bounds(60, 60, 1)), "one")
        at = now()
        wanted = staging("staging_in", created_at=at, progressed_at=at)
        await records.create(REF, wanted)

        for _ in range(outage + 1):
            stored = await records.read(REF, wanted.id)
            assert stored is not None
            await records.replace(REF, stored, stored.staging.model_copy(update={"not_before": None}))
            last = await steps.advance(REF, wanted.id)

    assert last is not None
    assert (last.phase, last.staged_in.files, last.staged_in.failed_files) == ("waiting", 1, 0)


class Released:
    """A Slurm that releases every job, and whose jobs wait."""

    async def change(self, *_request: object) -> None:
        return None

    async def job(self, *_request: object) -> Any:
        raise RpcFailed(RpcError(kind="unavailable", detail="it is away"))


async def _a_url(*_wanted: object) -> SignedUrl:
    return SignedUrl("GET", "http://bucket/x", {}, now())


async def _a_bucket(_steps: StagingSteps, _turn: object) -> object:
    return object()


async def test_a_mark_that_names_no_staging_stops_no_other() -> None:
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        records = StagingRecords(store)
        await store.write(Put(STAGING, Key(UNFINISHED, "acme main#1"), {}, Absent()))
        await records.create(REF, staging("staging_out", created_at=now()))

        found, _ = await records.unfinished(10, None)

    assert found == ((REF, "0" * 32),)


def a_sweep() -> StagingSweep:
    nothing: Any = None
    return StagingSweep(nothing, nothing)


def test_a_staging_whose_turn_is_over_goes_on_soon() -> None:
    assert a_sweep()._pause_seconds((REF, "0" * 32), staging("staging_out")) == SOON_SECONDS
    assert a_sweep()._pause_seconds((REF, "0" * 32), staging("staging_out", claimed_by="another")) > SOON_SECONDS
    assert a_sweep()._pause_seconds((REF, "0" * 32), staging("submitting")) > SOON_SECONDS


def ended(job_id: str) -> Event:
    fact = JobFact(
        kind="job.completed",
        job_id=job_id,
        name="x",
        user="ada",
        uid=20001,
        partition="main",
        state="COMPLETED",
        submitted_at=now(),
    )
    return event_of("proxy", REF, fact, version=job_id, time=now())


def test_an_array_is_looked_at_once_in_a_while_however_many_of_its_tasks_end() -> None:
    place, other = (REF, "0" * 32), (REF, "1" * 32)
    sweep = a_sweep()
    assert sweep._pause_seconds(place, staging("waiting", job_id="42")) == WAITING_SECONDS
    assert sweep._pause_seconds(other, staging("waiting", job_id="43")) == WAITING_SECONDS
    sweep._due = dict.fromkeys((place, other), time.monotonic() + WAITING_SECONDS)

    sweep.on_event(REF, ended("42_1"))
    first = sweep._due[place]
    sweep.on_event(REF, ended("42_2"))
    sweep.on_event(REF, ended("43"))

    assert sweep._due[place] == first
    assert sweep._chosen([place, other]) == [other]
    assert first - time.monotonic() <= ARRAY_SECONDS
    assert sweep._pause_seconds(place, staging("waiting", job_id="42")) == ARRAY_SECONDS
    assert sweep._pause_seconds(place, staging("waiting", job_id="42")) == WAITING_SECONDS


class SlowSteps:
    """Steps that take a while, after which the job is waited for."""

    async def advance(self, _ref: ClusterRef, _staging_id: str) -> Staging:
        await asyncio.sleep(0.2)
        return staging("waiting", job_id="42")


async def test_an_array_is_looked_at_less_often_where_a_look_takes_long() -> None:
    place = (REF, "0" * 32)
    nothing: Any = None
    steps: Any = SlowSteps()
    sweep = StagingSweep(nothing, steps)

    await sweep._advance(place)
    sweep.on_event(REF, ended("42_1"))
    after_staging_in = sweep._due[place] - time.monotonic()
    await sweep._advance(place)
    await sweep._advance(place)
    sweep.on_event(REF, ended("42_2"))
    after_a_look = sweep._due[place] - time.monotonic()

    assert after_staging_in <= ARRAY_SECONDS
    assert 0.9 * 0.2 / LOOK_SHARE < after_a_look < WAITING_SECONDS


@pytest.mark.parametrize("seed", range(5))
def test_routine_looks_at_many_jobs_keep_no_new_and_no_ended_one_waiting(seed: int) -> None:
    sweep = a_sweep()
    many = [(REF, f"{number:032x}") for number in range(1000)]
    for number, place in enumerate(many):
        sweep._pause_seconds(place, staging("waiting", job_id=f"{number + 1}"))
    new, over = (REF, "f" * 32), many[seed]
    sweep.on_event(REF, ended(f"{seed + 1}"))

    chosen = sweep._chosen([*many, new])

    assert len(chosen) == PER_CLUSTER
    assert {new, over} <= set(chosen)
    assert not sweep._left_over


def test_copying_outputs_is_no_routine_look() -> None:
    place = (REF, "0" * 32)
    sweep = a_sweep()

    sweep._pause_seconds(place, staging("waiting", job_id="42"))
    waiting = sweep._is_routine(place)
    sweep._pause_seconds(place, staging("staging_out", job_id="42"))

    assert waiting
    assert not sweep._is_routine(place)


async def test_the_next_round_comes_soon_where_more_is_left_than_routine() -> None:
    nothing: Any = None
    steps: Any = SlowSteps()
    sweep = StagingSweep(nothing, steps)
    new = [(REF, f"{number:032x}") for number in range(PER_CLUSTER + 1)]

    for place in sweep._chosen(new):
        await sweep._advance(place)

    assert sweep._woken.is_set()


@pytest.mark.parametrize("seed", range(5))
def test_a_tenant_with_many_stagings_keeps_nobody_waiting(seed: int) -> None:
    sweep = a_sweep()
    many = [
        (ClusterRef(tenant="acme", cluster=f"c{cluster}"), f"{number:032x}")
        for cluster in range(30)
        for number in range(10)
    ]
    few = (ClusterRef(tenant="rival", cluster="main"), f"{seed:032x}")

    chosen = sweep._chosen([*many, few])
    sweep._under_way.update(place for place in chosen if place != few)
    again = sweep._chosen([*many, few])

    assert few in chosen
    assert len(chosen) == AT_A_TIME
    assert again == [few]
