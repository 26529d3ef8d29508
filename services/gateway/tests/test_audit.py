"""The export of the audit: every action once, in order, and in forms that no text of a user can break."""

import csv
import io
import json
from datetime import timedelta

import pytest
from aiohttp import ClientPayloadError
from clusterra_contracts.events import AdminFact, Event, JobActionFact, JobFact, NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.events.audit import Entry, csv_rows, entry_of, ndjson
from clusterra_gateway.http.answers.streams import csv_lines
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st

AUDIT = "/v1/clusters/main/audit"
REF = ClusterRef(tenant="acme", cluster="main")
START = now()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def submitted(number: int, name: str = "hello") -> Event:
    at = START + timedelta(seconds=number)
    fact = JobFact(
        kind="job.submitted",
        job_id=str(number),
        name=name,
        user="ada",
        uid=20001,
        partition="main",
        state="PENDING",
        submitted_at=at,
    )
    return event_of("proxy", REF, fact, version="1", time=at)


def cancelled(number: int) -> Event:
    fact = JobActionFact(
        kind="action.cancel", job_id=str(number), tasks="1-3", name="hello", user="ada", uid=20001, actor="boss"
    )
    return event_of("gateway", REF, fact, version="2", time=START + timedelta(seconds=number))


def test_an_entry_says_who_did_what_to_whom() -> None:
    entry = entry_of(cancelled(7))

    assert entry is not None
    assert (entry.actor, entry.action, entry.subject, entry.owner) == ("boss", "action.cancel", "7", "ada")
    assert entry.detail == "hello; 1-3"


def test_what_nobody_did_is_no_entry() -> None:
    fact = NodeFact(kind="node.down", node="n1")

    assert entry_of(event_of("proxy", REF, fact, version="1", time=START)) is None


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=5))
def test_any_text_stays_in_its_cell_and_is_no_formula(texts: list[tuple[str, str, str]]) -> None:
    entries = [
        Entry(time=START, actor=actor, action="action.hold", subject=subject, owner="", detail=detail, event_id="1")
        for actor, subject, detail in texts
    ]

    rows = list(
        csv.DictReader(io.StringIO((csv_lines([tuple(Entry.model_fields)]) + csv_rows(entries)).decode(), newline=""))
    )
    lines = ndjson(entries).decode().split("\n")

    assert [Entry.model_validate_json(line) for line in lines[:-1]] == entries
    assert len(rows) == len(entries)
    for row, entry in zip(rows, entries, strict=True):
        assert row["actor"] in (entry.actor, f"'{entry.actor}")
        assert row["detail"] in (entry.detail, f"'{entry.detail}")
        assert not row["detail"].startswith(("=", "+", "-", "@", "\t", "\r"))


async def test_the_export_has_every_page_of_the_archive(world: World) -> None:
    boss = await world.login("boss@acme.example")
    world.acme.events.archived.extend(submitted(number) for number in range(1, 1201))

    async with boss.get(f"{AUDIT}?after=2026-01-01T00:00:00Z") as answer:
        text = await answer.text()

    assert (answer.status, answer.content_type) == (200, "application/x-ndjson")
    assert [json.loads(line)["subject"] for line in text.splitlines()] == [str(n) for n in range(1, 1201)]
    assert "token.revoked" in (world.acme.events.histories[0].kinds or ())
    assert "node.down" not in (world.acme.events.histories[0].kinds or ())

    async with boss.get(f"{AUDIT}?format=csv") as answer:
        table = list(csv.reader(io.StringIO(await answer.text(), newline="")))

    assert answer.headers["Content-Disposition"] == 'attachment; filename="audit-main.csv"'
    assert table[0] == list(Entry.model_fields)
    assert len(table) == 1201


async def test_the_export_has_the_kinds_and_the_text_that_were_asked_for(world: World) -> None:
    boss = await world.login("boss@acme.example")
    quota = AdminFact(kind="quota.changed", actor="boss", subject="user:ada", detail="5 USD, block")
    world.acme.events.archived.append(event_of("gateway", REF, quota, version="1", time=START))
    world.acme.events.archived.extend([submitted(1, "train"), submitted(2, "Test"), cancelled(3)])

    async def exported(**asked: str) -> list[str]:
        async with boss.get(AUDIT, params=asked) as answer:
            assert answer.status == 200
            return [json.loads(line)["action"] for line in (await answer.text()).splitlines()]

    def asked_kinds() -> tuple[str, ...]:
        return world.acme.events.histories[-1].kinds or ()

    await exported(kind="quota.*")
    assert asked_kinds() == ("quota.changed", "quota.deleted")
    await exported(kind="job.*,token.revoked")
    assert asked_kinds() == ("job.submitted", "token.revoked")
    assert await exported(search=" tESt") == ["job.submitted"]
    assert len(await exported(search="ADA")) == 4
    assert await exported(search="Quota") == ["quota.changed"]
    assert await exported(search="nobody") == []


async def test_a_kind_that_is_not_in_the_audit_is_refused(world: World) -> None:
    boss = await world.login("boss@acme.example")

    for kind in ("node.down", "job.failed", "node.*", "*"):
        async with boss.get(AUDIT, params={"kind": kind}) as answer:
            assert answer.status == 400
            assert "quota.changed" in (await answer.json())["hint"]


async def test_only_admins_export_it(world: World) -> None:
    ada, chief = await world.login("ada@acme.example"), await world.login("chief@rival.example")

    async with ada.get(AUDIT) as answer:
        assert answer.status == 403
    async with chief.get(AUDIT) as answer:
        assert answer.status == 404
    assert world.acme.events.histories == []


async def test_an_export_that_breaks_off_is_not_taken_for_the_whole(world: World) -> None:
    boss = await world.login("boss@acme.example")
    world.acme.events.archived.extend(submitted(number) for number in range(1, 1201))
    world.acme.events.history_fails_after = 2

    async with boss.get(AUDIT) as answer:
        with pytest.raises(ClientPayloadError):
            await answer.read()


async def test_an_archive_that_does_not_answer_is_a_problem(world: World) -> None:
    boss = await world.login("boss@acme.example")
    world.acme.events.history_fails_after = 0

    async with boss.get(AUDIT) as answer:
        assert answer.status == 503


async def test_an_administrative_action_is_exported(world: World) -> None:
    boss = await world.login("boss@acme.example")
    fact = AdminFact(kind="token.revoked", actor="boss", subject="t1")
    world.acme.events.archived.append(event_of("gateway", REF, fact, version="1", time=START))

    async with boss.get(AUDIT) as answer:
        (line,) = (await answer.text()).splitlines()

    assert json.loads(line) | {"time": "", "event_id": ""} == {
        "time": "",
        "actor": "boss",
        "action": "token.revoked",
        "subject": "t1",
        "owner": "",
        "detail": "",
        "event_id": "",
    }


def test_the_role_of_a_changed_member_is_told_before_and_after() -> None:
    fact = AdminFact(kind="member.changed", actor="boss", subject="ada", before="member", after="admin")

    entry = entry_of(event_of("gateway", REF, fact, version="1", time=START))

    assert entry is not None
    assert entry.detail == "from member to admin"
