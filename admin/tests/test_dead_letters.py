"""`clusterra-admin dead-letters` on a real server: what a service could not handle is found and handled after all."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from admin_command import admin, admin_process
from clusterra_admin import newest
from clusterra_admin.backup.stream_backup import SERVERS_OWN
from clusterra_admin.dead_letters import destination, replay
from clusterra_admin.dead_letters.letter import Letter
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import GZIP, encode
from clusterra_contracts.bus.topology import CONSUMERS, EVENT
from clusterra_contracts.events import NodeFact, WorkerFact, event_of
from clusterra_contracts.identity import now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import BusUnavailable
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import last_stored
from clusterra_runtime.settings import ServiceSettings
from dead_letter_world import MAIN, SUBJECT, Installation
from operator_server import installed

pytestmark = pytest.mark.servers


@pytest.fixture
async def installation(nats: NatsServer) -> AsyncIterator[Installation]:
    client = await bus.connect(nats.settings(), "test")
    yield Installation(nats, client)
    await bus.close(client)


def snapshot(generation: int) -> QueueSnapshot:
    return QueueSnapshot(generation=generation, taken_at=now(), pending=(), running=(), nodes=())


async def test_what_a_service_could_not_read_is_handled_once_after_the_fault_is_mended(
    installation: Installation,
) -> None:
    async with installation.reader():
        event = await installation.publish()
        (letter,) = await installation.wait_letters(1)
        number = str(letter.sequence)

        async def advised() -> bool:
            return bool((await installation.run("list", "--json")).json["advisories"])

        await until(advised, seconds=90, what="the advisory of the server")
        listed = await installation.run("list")
        in_json = (await installation.run("list", "--subject", "event.acme.>", "--json")).json
        other = await installation.run("list", "--subject", "event.umbrella.>")
        shown = await installation.run("show", number)
        shown_json = (await installation.run("show", number, "--json")).json
        dry = await installation.run("replay", number, "--dry-run")
        assert len(await installation.letters()) == 1

        installation.broken = False
        replayed = await installation.run("replay", number, "--yes")
        await until(lambda: installation.handled, seconds=90, what="the event")
        await installation.wait_settled()
        again = await installation.run("replay", number, "--yes", code=2)
        empty = await installation.run("list")

    assert installation.handled == [event.id]
    assert f"{number}  " in listed.out
    assert SUBJECT in listed.out
    assert "an old release cannot read it" in listed.out
    assert "events-archive: 0 given up" in listed.out
    assert "; 1 ended by the reader" in listed.out
    (row,) = in_json["dead_letters"]
    assert (row["sequence"], row["subject"], row["bytes"]) == (letter.sequence, SUBJECT, len(letter.body))
    assert not in_json["more"]
    assert other.out.startswith("no dead letters\n")
    assert f'    "id": "{event.id}"' in shown.out
    assert "x-schema: event.v4" in shown.out
    assert event.id in shown_json["body"]
    assert dry.out == f"{number}  would be replayed {SUBJECT}\n1 would be replayed\n"
    assert replayed.out == f"{number}  replayed {SUBJECT}\n1 replayed\n"
    assert "gone" in again.out
    assert empty.out.startswith("no dead letters\n")


async def test_a_replay_that_dies_in_between_is_repeated_and_publishes_once(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> None:
        raise BusUnavailable("the connection is gone")

    async with installation.reader():
        event = await installation.publish()
        await installation.wait_letters(1)
        installation.broken = False
        with monkeypatch.context() as patch:
            patch.setattr(replay, "remove_message", die)
            died = await installation.run("replay", "--subject", "event.>", "--yes", code=1)
        kept = len(await installation.letters())

        await installation.run("replay", "--subject", "event.>", "--yes")
        await installation.wait_settled()

    assert "the connection is gone" in died.err
    assert kept == 1
    assert await installation.letters() == []
    assert (await installation.state(EVENT.name)).messages == 2
    assert installation.handled == [event.id]


async def test_a_message_that_fails_again_can_be_replayed_again(installation: Installation) -> None:
    async with installation.reader():
        event = await installation.publish()
        (first,) = await installation.wait_letters(1)
        await installation.run("replay", str(first.sequence), "--yes")
        (second,) = await installation.wait_letters(1)
        installation.broken = False
        await installation.run("replay", str(second.sequence), "--yes")
        await until(lambda: installation.handled, seconds=90, what="the event")
        await installation.wait_settled()

    assert second.sequence > first.sequence
    assert installation.handled == [event.id]


async def test_one_message_that_two_readers_gave_up_is_published_once(installation: Installation) -> None:
    event = event_of("test", MAIN, NodeFact(kind="node.down", node="n1"), version="1", time=now())
    body, headers = encode(event)
    for position in ("EVENT-1", "EVENT-1-again"):
        await bus.dead_letter(installation.client, SUBJECT, body, headers, "a test", origin=position)

    answer = await installation.run("replay", "--subject", "event.>", "--yes", "--json")

    assert answer.json["counts"] == {"replayed": 2}
    assert await installation.letters() == []
    assert (await installation.state(EVENT.name)).messages == 1


async def test_a_replayed_event_has_no_id_of_an_event_that_the_proxy_would_take_for_a_new_one(
    installation: Installation,
) -> None:
    event = event_of("test", MAIN, NodeFact(kind="node.down", node="n1"), version="1", time=now())
    body, headers = encode(event, message_id=event.id)
    await installation.bury(SUBJECT, body, {**headers, "traceparent": f"00-{1:032x}-{1:016x}-00", "Nats-Rollup": "all"})

    await installation.run("replay", "--subject", "event.>", "--yes")

    stored = await last_stored(installation.client, EVENT.name, SUBJECT)
    assert stored is not None
    assert stored.body == body
    own = {name: value for name, value in stored.headers.items() if name not in SERVERS_OWN}
    assert own.pop("Nats-Msg-Id").startswith("replayed-1-")
    assert own == {
        "content-type": "application/json",
        "x-schema": "event.v4",
        "traceparent": f"00-{1:032x}-{1:016x}-00",
    }


async def test_what_nobody_would_read_is_refused_with_the_reason(installation: Installation) -> None:
    event = event_of("test", MAIN, NodeFact(kind="node.down", node="n1"), version="1", time=now())
    body, headers = encode(event)
    expected = {
        await installation.bury(subjects.heartbeat(MAIN), b"1"): "no consumer takes messages of heartbeat",
        await installation.bury(subjects.scale_desired(MAIN), b"1"): "no consumer takes messages of scale.desired",
        await installation.bury(subjects.slurm(MAIN, "submit"), b"1"): "no consumer takes messages of slurm",
        await installation.bury("$KV.registry.acme.main", b"1"): "no consumer takes messages of this subject",
        await installation.bury("event.acme.main", b"1"): "no consumer takes messages of this subject",
        await installation.bury(SUBJECT, b"\x00{"): "cannot read it",
        await installation.bury(SUBJECT, b" " * 70_000): "only the first 65536 of its 70000 bytes were kept",
        await installation.bury(SUBJECT, b"no gzip", {"content-encoding": GZIP}): "it is not gzip",
        await installation.bury(subjects.event(MAIN, "node.drained"), body, headers): "on the subject of node.drained",
        await installation.bury(subjects.edge_event(MAIN, "worker.started"), body, headers): "an event of kind",
    }

    answer = await installation.run("replay", "--subject", ">", "--yes", "--json", code=2)

    told = {each["sequence"]: each["reason"] for each in answer.json["outcomes"]}
    assert answer.json["counts"] == {"refused": len(expected)}
    for sequence, reason in expected.items():
        assert reason in told[sequence]
    assert len(await installation.letters()) == len(expected)
    assert (await installation.state(EVENT.name)).messages == 0


async def test_every_stream_that_is_consumed_has_its_messages_replayed() -> None:
    assert {each.stream.name for each in destination.FAMILIES.values()} == {each.stream for each in CONSUMERS}


async def test_an_event_of_an_edge_is_replayed_to_its_stream(installation: Installation) -> None:
    started = WorkerFact(kind="worker.started", worker="xs-1", shape="xs", started_at=now())
    event = event_of("edge-agent", MAIN, started, version="1", time=now())
    body, headers = encode(event)
    await installation.bury(subjects.edge_event(MAIN, event.kind), body, headers)

    await installation.run("replay", "--subject", "edge-event.acme.main.>", "--yes")

    assert (await installation.state("EDGE_EVENT")).messages == 1


async def test_a_queue_is_replayed_only_while_it_is_the_clusters_last(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, subject = snapshot(1), subjects.job_pending(MAIN)
    body, headers = encode(old)
    await bus.publish_durable(installation.client, subject, old, message_id="1")
    await installation.bury(subjects.job_sharded(MAIN), body, headers)

    replayed = await installation.run("replay", "--subject", "job.>", "--yes")
    after_replay = await last_stored(installation.client, "JOB", subjects.job_sharded(MAIN))
    await installation.bury(subjects.job_sharded(MAIN), body, headers)

    looked_at = replay._check_not_replaced

    looks = 0

    async def overtaken(client: Client, found: destination.Destination, letter: Letter) -> int:
        """A newer snapshot arrives between the second look and the publication."""
        nonlocal looks
        looks += 1
        stored = await looked_at(client, found, letter)
        if looks == 2:
            await bus.publish_durable(client, subject, snapshot(2), message_id="2")
        return stored

    with monkeypatch.context() as patch:
        patch.setattr(replay, "_check_not_replaced", overtaken)
        late = await installation.run("replay", "--subject", "job.>", "--yes", code=2)
    refused = await installation.run("replay", "--subject", "job.>", "--yes", code=2)
    last = await last_stored(installation.client, "JOB", subjects.job_sharded(MAIN))

    assert f"replayed {subject}" in replayed.out
    assert after_replay is not None
    assert (after_replay.sequence, after_replay.body) == (2, body)
    assert "newer snapshot" in late.out
    assert "newer snapshot" in refused.out
    assert last is not None
    assert last.body != body


async def test_a_replay_asks_before(installation: Installation) -> None:
    await installation.bury(SUBJECT, *encode(await installation.publish()))

    # A process, whose standard input is empty.
    answer = await admin_process("dead-letters", "replay", "1", environment=installation.environment, code=1)

    assert "replay 1 dead letters?" in answer.err
    assert len(await installation.letters()) == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("replay",), "give either numbers of dead letters or --subject"),
        (("replay", "1", "--subject", "event.>"), "give either numbers of dead letters or --subject"),
        (("list", "--subject", "event. .x"), "is not a pattern of subjects"),
        (("list", "--subject", "event..x"), "is not a pattern of subjects"),
        (("list", "--subject", "\x1b[2J"), "is not a pattern of subjects"),
        (("show", "12345"), "there is no dead letter 12345"),
    ],
)
async def test_a_wrong_command_line_is_told(
    installation: Installation, arguments: tuple[str, ...], problem: str
) -> None:
    answer = await installation.run(*arguments, code=1)

    assert problem in answer.err
    assert "\x1b" not in answer.err


async def test_the_newest_come_first_in_bounded_pages(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = installation.client
    for number in range(120):
        # Few of umbrella, far apart; those of acme do not fit into one page.
        tenant = "umbrella" if number in (3, 4, 90) else "acme"
        await publish_letter(client, f"dlq.event.{tenant}.main.node.down", b"%d" % number + bytes(500))
    everything = [each.sequence for each in await installation.letters()]
    monkeypatch.setattr(newest, "FIRST_WIDTH", 16)
    monkeypatch.setattr(newest, "PAGE_BYTES", 2048)

    async def found(pattern: str) -> list[int]:
        return [each.sequence async for each in newest.newest_first(client, "DLQ", pattern)]

    assert await found(">") == everything[::-1]
    assert len(everything) == 32 + 3
    assert await found("dlq.event.umbrella.>") == [91, 5, 4]
    assert await found("dlq.event.nobody.>") == []
    listed = await installation.run("list", "--limit", "2", "--json")
    assert [each["sequence"] for each in listed.json["dead_letters"]] == [120, 119]
    assert listed.json["more"]


async def publish_letter(client: Client, subject: str, body: bytes) -> None:
    await client.jetstream().publish(subject, body)


async def test_a_service_buries_and_an_operator_replays_with_their_own_logins(tmp_path: Path) -> None:
    event = event_of("test", MAIN, NodeFact(kind="node.down", node="n1"), version="1", time=now())
    body, headers = encode(event)
    async with installed(tmp_path, (MAIN,)) as secured:
        login = ServiceSettings(nats_url=secured.server.url, nats_credentials_file=secured.central("events"))
        service = await bus.connect(login, "events")
        await bus.dead_letter(service, SUBJECT, body, headers, "a test", origin="EVENT-1")
        operator = secured.server.environment("admin")

        listed = await admin("dead-letters", "list", "--json", environment=operator)
        replayed = await admin("dead-letters", "replay", "1", "--yes", environment=operator)
        stored = await last_stored(service, EVENT.name, SUBJECT)
        await bus.close(service)

    assert [each["subject"] for each in listed.json["dead_letters"]] == [SUBJECT]
    assert replayed.out.endswith("1 replayed\n")
    assert stored is not None
