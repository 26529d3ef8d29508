"""Turns of stagings: one that takes long lets others have theirs, whoever has how many."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.edge_staging import FetchFiles, FindFiles, MakeFolder, Stage, Staged, StagingProblem
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import FindKey, Submitted
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.files.presigned import Bounds, SignedUrl
from clusterra_gateway.staging import copies, turn
from clusterra_gateway.staging.reconcile import StagingReconciler
from clusterra_gateway.staging.staging import FILE_ATTEMPTS
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.tables import TABLES
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.table_use import tables_of
from gateway_world import no_message
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


async def test_a_long_turn_ends_between_two_batches_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "TURN_SECONDS", 0.0)
    edge: Any = LinksOnly()
    nothing: Any = None
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        directory, records = Directory(store, Outbox(store, no_message)), StagingRecords(store)
        monkeypatch.setattr(StagingReconciler, "_bucket", _a_bucket)
        reconciler = StagingReconciler(records, directory, (nothing, edge), (nothing, Bounds(60, 60, 1)), "one")
        at = now()
        wanted = staging("staging_out", created_at=at, progressed_at=at)
        await records.create(REF, wanted)

        first = await reconciler.reconcile(REF, wanted.id)
        asked, turns = edge.asked, 1
        last = first
        while last is not None and not last.over:
            last = await reconciler.reconcile(REF, wanted.id)
            turns += 1

    assert first is not None
    assert (asked, first.cursor, first.claimed_by, first.phase) == (1, "0001", "", "staging_out")
    assert last is not None
    assert (last.phase, last.staged_out.failed_files, turns) == ("failed", PAGES, PAGES + 1)


class GoesNowhere:
    """An edge that answers at once, for ever, that there is more: it `finds` files and tells none, or is `running`."""

    def __init__(self, answer: Staged) -> None:
        self._answer = answer
        self.asked = 0

    async def stage(self, _ref: ClusterRef, _request: Stage) -> Staged:
        self.asked += 1
        # The bus lets others have their turn.
        await asyncio.sleep(0)
        return self._answer


@pytest.mark.parametrize(
    ("answer", "most"), [(Staged(state="done", after="x"), 1), (Staged(state="running"), 10)], ids=["finds", "running"]
)
async def test_an_edge_that_answers_at_once_and_goes_nowhere_is_not_asked_without_a_pause(
    answer: Staged, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge: Any = GoesNowhere(answer)
    nothing: Any = None
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        directory, records = Directory(store, Outbox(store, no_message)), StagingRecords(store)
        monkeypatch.setattr(StagingReconciler, "_bucket", _a_bucket)
        reconciler = StagingReconciler(records, directory, (nothing, edge), (nothing, Bounds(60, 60, 1)), "one")
        at = now()
        wanted = staging("staging_out", created_at=at, progressed_at=at)
        await records.create(REF, wanted)

        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await reconciler.reconcile(REF, wanted.id)

    assert 1 <= edge.asked <= most


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
    monkeypatch.setattr(StagingReconciler, "_stage_in", no_message)
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        directory, records = Directory(store, Outbox(store, no_message)), StagingRecords(store)
        reconciler = StagingReconciler(records, directory, (slurm, nothing), (nothing, Bounds(60, 60, 1)), "one")
        at = now() - timedelta(hours=1)
        wanted = staging("submitting", job_id=None, created_at=at, progressed_at=at)
        await records.create(REF, wanted)

        while_away = await reconciler.reconcile(REF, wanted.id)
        stored = await records.read(REF, wanted.id)
        assert stored is not None
        await records.replace(REF, stored, stored.staging.model_copy(update={"not_before": None}))
        after = await reconciler.reconcile(REF, wanted.id)

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
    monkeypatch.setattr(StagingReconciler, "_bucket", _a_bucket)
    monkeypatch.setattr(copies, "signed_get", _a_url)
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        directory, records = Directory(store, Outbox(store, no_message)), StagingRecords(store)
        reconciler = StagingReconciler(records, directory, (slurm, edge), (nothing, Bounds(60, 60, 1)), "one")
        at = now()
        wanted = staging("staging_in", created_at=at, progressed_at=at)
        await records.create(REF, wanted)

        for _ in range(outage + 1):
            stored = await records.read(REF, wanted.id)
            assert stored is not None
            await records.replace(REF, stored, stored.staging.model_copy(update={"not_before": None}))
            last = await reconciler.reconcile(REF, wanted.id)

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


async def _a_bucket(_reconciler: StagingReconciler, _turn: object) -> object:
    return object()
