"""The record of interactive sessions: repeated submits, job ids that come again, ends, and what a deletion leaves."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.accounts.session_records import SessionRecord, SessionRecords
from clusterra_gateway.tables import TABLES
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.table_use import tables_of

REF, OTHER = ClusterRef(tenant="acme", cluster="main"), ClusterRef(tenant="acme", cluster="other")


@pytest.fixture
async def records() -> AsyncIterator[SessionRecords]:
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        yield SessionRecords(store)


def session(**changes: Any) -> SessionRecord:
    fields = {"job_id": "42", "member": "ada", "template_id": "jupyter", "name": "Jupyter", "run_id": "r1", "kid": "k1"}
    return SessionRecord.model_validate({**fields, "created_at": now(), **changes})


async def test_a_repeated_submit_leaves_the_session_as_it_is(records: SessionRecords) -> None:
    await records.create(REF, session())
    await records.end(REF, "42")

    await records.create(REF, session())

    found = await records.read(REF, "42")
    assert found is not None
    assert found.ended


async def test_a_job_id_that_comes_again_is_another_session(records: SessionRecords) -> None:
    await records.create(REF, session())
    await records.end(REF, "42")

    await records.create(REF, session(member="grace", run_id="r2"))

    found = await records.read(REF, "42")
    assert found is not None
    assert (found.member, found.run_id, found.ended) == ("grace", "r2", False)
    assert await records.running() == ((REF, "42"),)


async def test_a_member_is_told_of_their_own_running_sessions(records: SessionRecords) -> None:
    await records.create(REF, session())
    await records.create(REF, session(job_id="43", run_id="r2"))
    await records.create(REF, session(job_id="44", run_id="r3", member="grace"))
    await records.create(OTHER, session(job_id="45", run_id="r4"))
    await records.end(REF, "43")

    found = await records.of_member(REF, "ada", 10)

    assert [each.job_id for each in found] == ["42"]


async def test_a_deleted_cluster_leaves_nothing(records: SessionRecords) -> None:
    await records.create(REF, session())
    await records.create(OTHER, session())

    removed = await records.forget(REF, 10)

    assert removed == 1
    assert await records.read(REF, "42") is None
    assert await records.running() == ((OTHER, "42"),)
    assert await records.forget(REF, 10) == 0


async def test_the_end_of_a_session_that_has_expired_is_no_error(records: SessionRecords) -> None:
    await records.end(REF, "42")

    assert await records.running() == ()
