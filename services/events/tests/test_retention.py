"""How long the archive keeps each kind, and that a reader is told from when on it has all of them."""

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import AUDITED_KINDS, JOB_ENDS, AdminFact, Fact, NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, from_epoch
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_events.archive import Archive
from clusterra_events.retention import DAY_SECONDS, Retention
from clusterra_events.settings import Settings
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Table
from pydantic import ValidationError

MAIN = ClusterRef(tenant="acme", cluster="main")
TABLE = Table("events")
BEGAN = 1_800_000_000.0


def test_each_kind_is_kept_as_its_nearest_name_says() -> None:
    retention = Retention(30 * DAY_SECONDS, {"audit": 400, "job.*": 90, "scale.decided": 14, "job.running": 1})

    kept = {kind: retention.seconds(kind) / DAY_SECONDS for kind in ("job.running", "scale.decided", "node.down")}

    assert kept == {"job.running": 1, "scale.decided": 14, "node.down": 30}
    assert {retention.seconds(kind) / DAY_SECONDS for kind in AUDITED_KINDS} == {400}, "job.submitted too"
    assert {retention.seconds(kind) / DAY_SECONDS for kind in JOB_ENDS} == {90}
    assert retention.seconds("newer.kind") == 30 * DAY_SECONDS
    assert (retention.shortest(), retention.longest) == (DAY_SECONDS, 400 * DAY_SECONDS)
    assert retention.shortest({"job.failed", "scale.decided"}) == 14 * DAY_SECONDS


@pytest.mark.parametrize(
    "given", ['{"job.exploded": 3}', '{"jobs.*": 3}', '{"*": 3}', '{"audit": 0}', '{"audit": 1e9}', "7"]
)
def test_a_setting_that_means_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("CLUSTERRA_EVENT_RETENTION_DAYS", given)

    with pytest.raises(ValidationError):
        Settings()


def test_without_the_setting_all_kinds_are_kept_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().event_retention.shortest() == Settings().event_retention.longest == 90 * DAY_SECONDS

    monkeypatch.setenv("CLUSTERRA_EVENT_RETENTION_DAYS", '{"audit": 400}')

    assert Settings().event_retention.seconds("quota.changed") == 400 * DAY_SECONDS


async def test_events_expire_by_their_kind_and_a_reader_is_told() -> None:
    clock = [BEGAN]
    retention = Retention(90 * DAY_SECONDS, {"audit": 400, "node.*": 14})
    facts: tuple[Fact, ...] = (
        NodeFact(kind="node.down", node="n"),
        AdminFact(kind="quota.changed", actor="boss", subject="user:ada"),
    )
    async with MemoryStore(clock=lambda: clock[0]) as store:
        await store.create_tables(TABLE)
        archive = Archive(store, TABLE, retention=retention, clock=lambda: clock[0])
        for position, fact in enumerate(facts, start=1):
            told = event_of("gateway", MAIN, fact, version="1", time=from_epoch(BEGAN))
            await archive.keep(Subject("event", MAIN, fact.kind), told, position)

        before = await archive.read(MAIN, ReadHistory())
        clock[0] += 15 * DAY_SECONDS
        after = await archive.read(MAIN, ReadHistory())
        audit = await archive.read(MAIN, ReadHistory(kinds=("quota.*",)))

    assert [event.kind for event in before.events] == ["node.down", "quota.changed"]
    assert [event.kind for event in after.events] == [event.kind for event in audit.events] == ["quota.changed"]
    assert after.kept_from == from_epoch(clock[0] - 14 * DAY_SECONDS)
    assert audit.kept_from == from_epoch(clock[0] - 400 * DAY_SECONDS)
