"""What the doctor says of new dead letters, and of messages that NATS gave up."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from clusterra_admin.doctor import dead_letters
from clusterra_admin.doctor.connection import DoctorClient
from clusterra_admin.doctor.dead_letters import check_advisories, check_dead_letters
from clusterra_admin.doctor.settings import DoctorSettings
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import Consumer
from clusterra_contracts.identity import ClusterRef, now
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus, topology

pytestmark = pytest.mark.servers

MAIN = ClusterRef(tenant="acme", cluster="main")
SUBJECT = subjects.event(MAIN, "node.down")
HASTY = Consumer("EVENT", "hasty", "event.>", ack_wait_seconds=0.05, max_deliver=1)
NEXT = f"$JS.API.CONSUMER.MSG.NEXT.{HASTY.stream}.{HASTY.name}"


@pytest.fixture
async def doctor(nats: NatsServer) -> AsyncIterator[DoctorClient]:
    client = DoctorClient()
    await client.open_within(DoctorSettings(nats_url=nats.url), 10)
    yield client
    await bus.close(client)


async def test_dead_letters_of_the_last_day_are_a_warning(
    doctor: DoctorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    (none,) = await check_dead_letters(doctor)
    for number in range(3):
        await bus.dead_letter(doctor, SUBJECT, b"%d" % number, {}, "cannot be read", origin=f"DOCTOR-{number}")
    (new,) = await check_dead_letters(doctor)
    monkeypatch.setattr(dead_letters, "MOST", 2)
    (many,) = await check_dead_letters(doctor)
    monkeypatch.setattr(dead_letters, "now", lambda: now() + timedelta(hours=2))
    (later,) = await check_dead_letters(doctor)
    monkeypatch.setattr(dead_letters, "now", lambda: now() + timedelta(days=2))
    (old,) = await check_dead_letters(doctor)

    assert (none.status, none.seen) == ("ok", "none")
    assert new.status == "warning"
    assert new.seen.startswith("3 in the last hour, 3 in the last day; the last of ")
    assert new.seen.endswith(f"on {SUBJECT}: cannot be read")
    assert "dead-letters list" in new.advice
    assert many.seen.startswith("2 or more in the last hour, 2 or more in the last day")
    assert later.seen.startswith("0 in the last hour, 2 or more in the last day")
    assert old.status == "ok"
    assert old.seen.startswith("none in the last day; the last of ")


async def test_messages_that_nats_gave_up_are_a_warning_and_ended_ones_are_not(doctor: DoctorClient) -> None:
    config = {"stream_name": HASTY.stream, "config": topology.consumer_config(HASTY)}
    await doctor.api(f"CONSUMER.CREATE.EVENT.{HASTY.name}.{HASTY.filter_subject}", config)
    await doctor.jetstream().publish(SUBJECT, b"ended by the reader")
    inbox = doctor.new_inbox()
    delivered = await doctor.subscribe(inbox)
    await doctor.publish(NEXT, reply=inbox)
    ended = await delivered.next_msg(60)
    await ended.term()

    async def advisories() -> int:
        return int((await doctor.api("STREAM.INFO.ADVISORY"))["state"]["messages"])

    await until(advisories, seconds=90, what="the advisory of an ended message")
    (before,) = await check_advisories(doctor)
    await doctor.jetstream().publish(SUBJECT, b"not acknowledged")
    await doctor.publish(NEXT, reply=inbox)
    await delivered.next_msg(60)

    async def given_up() -> bool:
        # The server notices when the reader asks for more.
        await doctor.publish(NEXT, b'{"batch": 1, "no_wait": true}', reply=inbox)
        return await advisories() == 2

    await until(given_up, seconds=90, what="the advisory of a message that was given up")
    (found,) = await check_advisories(doctor)

    assert before.status == "ok"
    assert found.status == "warning"
    assert found.seen == "given up without a dead letter: 1 in the last hour, 1 in the last day: EVENT/hasty 1"
    assert "log of its reader" in found.advice
