"""An array makes a few mails, however many tasks it has and whatever its owner asks for."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from clusterra_events.webhooks import digests
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from mail_server import GUARD_SECONDS, mail_server

from .mail_world import MailWorld, People, job_fact, known_people
from .webhook_world import world

TASKS = 10_000


@pytest.fixture
async def mails(nats: NatsServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MailWorld]:
    monkeypatch.setattr(digests, "FIRST_WINDOW", timedelta(seconds=2))
    async with world(nats) as running, known_people(running, People()) as found:
        yield found


async def test_an_array_of_10000_tasks_makes_at_most_12_mails(mails: MailWorld) -> None:
    async with mail_server() as server, mails.mailing(server):
        for first in range(0, TASKS, 500):
            tasks = range(first, first + 500)
            kinds = ["job.failed" if each % 100 == 7 else "job.completed" for each in tasks]
            asked = ("BEGIN", "END", "FAIL", "ARRAY_TASKS")
            facts = (job_fact(f"42_{each}", kind=kind, mail=asked) for each, kind in zip(tasks, kinds, strict=True))
            await mails.publish(*facts)
        counted = f"{TASKS - TASKS // 100} completed, {TASKS // 100} failed"

        def are_all_told() -> bool:
            return any(counted in each for each in server.subjects())

        await until(are_all_told, seconds=GUARD_SECONDS, what="a digest that counts all tasks")

    assert "Job 42_7 align: failed" in server.subjects()[0]
    assert all("Array 42 align: " in each for each in server.subjects()[1:])
    assert len(server.subjects()) <= 12
    assert len(server.mails) == len(server.subjects())
