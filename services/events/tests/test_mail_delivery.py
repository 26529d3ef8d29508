"""Mails reach the right people once: over failures of the SMTP server, and never more than an hour's share."""

from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.events import BudgetFact, RunFact, SessionFact
from clusterra_contracts.notifications import Choices
from clusterra_events.mails import sending
from clusterra_events.webhooks import progress
from clusterra_events.webhooks.state_table import DeliveryRecords
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from mail_server import GUARD_SECONDS, MailServer, mail_server

from .mail_world import MailWorld, People, address_of, job_fact, known_people
from .webhook_world import world


@pytest.fixture
def people() -> People:
    return People()


@pytest.fixture
async def mails(nats: NatsServer, people: People, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MailWorld]:
    monkeypatch.setattr(progress, "FIRST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(progress, "LONGEST_PAUSE_SECONDS", 0.5)
    async with world(nats) as running, known_people(running, people) as found:
        yield found


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with mail_server() as running:
        yield running


async def test_each_mail_goes_to_the_owner_alone_and_only_if_it_is_wanted(
    mails: MailWorld, people: People, server: MailServer
) -> None:
    people.choices["bob"] = Choices(jobs_failed=True, sessions_ready=True, runs_ended=True)
    people.gone.add("eve")

    async with mails.mailing(server):
        await mails.publish(
            job_fact("1", "ada"),
            job_fact("2", "ada", mail=()),
            job_fact("3", "ada", kind="job.running", mail=("END",)),
            job_fact("4", "bob", mail=()),
            job_fact("5", "bob", kind="job.failed", state="OUT_OF_MEMORY", mail=()),
            job_fact("6", "eve"),
            SessionFact(job_id="7", name="lab", user="bob", uid=20002),
            SessionFact(job_id="8", name="lab", user="ada", uid=20001),
            RunFact(kind="run.failed", run_id="r1", name="flow", user="bob", uid=20002, failed_step="two"),
            RunFact(kind="run.started", run_id="r1", name="flow", user="bob", uid=20002),
            job_fact("9", "ada", kind="job.timeout", state="TIMEOUT", mail=("TIME_LIMIT",)),
        )
        await server.has(5)

    assert [(to, message["Subject"]) for to, message in server.mails] == [
        (address_of("ada"), "[acme/main] Job 1 align: completed after 3 min"),
        (address_of("bob"), "[acme/main] Job 5 align: failed after 3 min (OUT_OF_MEMORY)"),
        (address_of("bob"), "[acme/main] Session 7 lab: ready"),
        (address_of("bob"), "[acme/main] Run r1 flow: failed"),
        (address_of("ada"), "[acme/main] Job 9 align: reached its time limit after 3 min"),
    ]
    text = server.mails[0][1].get_content()
    assert "https://console.example/c/main/jobs/1" in text
    assert server.mails[0][1].get_content_type() == "text/plain"


async def test_a_server_that_is_down_delays_mails_and_each_comes_once(mails: MailWorld) -> None:
    async with mail_server() as before:
        port = before.port
    async with mails.mailing(before):
        await mails.publish(*(job_fact(str(number)) for number in range(1, 4)))
        await until(lambda: mails.people.asked, seconds=GUARD_SECONDS, what="a first attempt")

        async with mail_server(port) as server:
            await server.has(3)
            await mails.publish(job_fact("4"))
            await server.has(4)

    assert [each.split()[2] for each in server.subjects()] == ["1", "2", "3", "4"]


async def test_a_recipient_who_is_refused_for_good_delays_nobody(mails: MailWorld, server: MailServer) -> None:
    server.answers[address_of("eve")] = ["550 5.1.1 no such user"]

    async with mails.mailing(server):
        await mails.publish(job_fact("1", "eve"), job_fact("2", "ada"))
        await server.has(1)

    assert server.asked == 2
    assert [to for to, _ in server.mails] == [address_of("ada")]


async def test_a_recipient_who_is_refused_for_now_is_tried_again_for_a_time(
    mails: MailWorld, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers[address_of("ada")] = ["451 4.7.1 greylisted", "250 OK"]
    server.answers[address_of("eve")] = ["452 4.2.2 mailbox full"]
    monkeypatch.setattr(sending, "RECIPIENT_SECONDS", 0.5)

    async with mails.mailing(server):
        await mails.publish(job_fact("1", "ada"), job_fact("2", "eve"), job_fact("3", "bob"))
        await server.has(2)

    assert [to for to, _ in server.mails] == [address_of("ada"), address_of("bob")]


async def test_a_full_mailbox_delays_the_mails_of_others_once_and_not_for_each_mail_to_it(
    mails: MailWorld, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers[address_of("eve")] = ["452 4.2.2 mailbox full"]
    monkeypatch.setattr(sending, "RECIPIENT_SECONDS", 0.5)

    async with mails.mailing(server):
        await mails.publish(job_fact("1", "eve"))
        await until(lambda: server.asked >= 2, seconds=GUARD_SECONDS, what="another attempt", every=0.02)
        await mails.publish(job_fact("2", "eve"), job_fact("3", "ada"))
        await server.has(1)
        before = server.asked
        await mails.publish(*(job_fact(str(number), "eve") for number in range(4, 14)), job_fact("99", "bob"))
        await server.has(2)

    assert [to for to, _ in server.mails] == [address_of("ada"), address_of("bob")]
    assert server.asked == before + 11


@pytest.mark.parametrize("user", ["x" * 65, "a..b", "josé", ".", "dot.", ""])
async def test_a_name_or_an_address_that_nobody_can_have_stops_no_mails(
    mails: MailWorld, people: People, server: MailServer, user: str
) -> None:
    people.admins = ("root",)

    async with mails.mailing(server):
        await mails.publish(job_fact("1", user), job_fact("2", "ada"))
        await server.has(1)

    assert [to for to, _ in server.mails] == [address_of("ada")]


async def test_a_loop_of_jobs_mails_no_more_than_an_hours_share(mails: MailWorld, server: MailServer) -> None:
    async with mails.mailing(server, per_hour=3):
        await mails.publish(*(job_fact(str(number)) for number in range(1, 40)), job_fact("99", "bob"))
        await server.has(4)

    assert len(server.to(address_of("ada"))) == 3
    assert len(server.to(address_of("bob"))) == 1
    assert "in the console only" in " ".join(server.to(address_of("ada"))[2].get_content().split())
    assert "in the console" not in server.to(address_of("ada"))[1].get_content()


async def test_several_people_are_mailed_once_each_although_one_of_them_fails(
    mails: MailWorld, people: People, server: MailServer
) -> None:
    people.admins = ("ada", "bob", "eve")
    people.choices = {"ada": Choices(budgets=True), "bob": Choices(budgets=True)}
    server.answers[address_of("bob")] = ["451 try later", "451 try later", "250 OK"]
    fact = BudgetFact(
        subject="tenant",
        scope="tenant",
        name="",
        month="2026-03",
        measure="actual",
        percent=80,
        limit_micro_usd=10_000_000,
        micro_usd=8_000_000,
    )

    async with mails.mailing(server):
        await mails.publish(fact, job_fact("1", "ada"))
        await server.has(3)

    assert [to for to, _ in server.mails] == [address_of("ada"), address_of("bob"), address_of("ada")]
    assert server.subjects()[0] == "[acme/main] Budget of the workspace: 80%"
    assert len({message["Message-ID"] for _, message in server.mails}) == 3


async def test_a_gateway_that_does_not_answer_delays_mails(
    nats: NatsServer, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FIRST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(progress, "LONGEST_PAUSE_SECONDS", 0.5)
    async with world(nats) as running:
        alone = MailWorld(running, People())
        async with alone.mailing(server):
            await alone.publish(job_fact("1"))

            async def was_tried() -> bool:
                records = DeliveryRecords(running.store, family="mails")
                known = [(await records.progress("acme", each)).progress for each in await records.known("acme")]
                return any(each is not None and each.failing is not None for each in known)

            await until(was_tried, seconds=GUARD_SECONDS, what="a failed attempt")
            async with known_people(running, People()):
                await server.has(1)
