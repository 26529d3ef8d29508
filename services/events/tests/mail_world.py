"""Mails on a real NATS server and to a real SMTP server, with people whom a stand-in of the gateway knows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.headerregistry import Address
from typing import Any

from clusterra_contracts.events import JobFact
from clusterra_contracts.identity import TenantRef, now
from clusterra_contracts.notifications import Choices
from clusterra_contracts.rpc.mails import ReadRecipients, Recipient, Recipients
from clusterra_events.mails.recipients import RecipientReads
from clusterra_events.mails.sending import MailForm, MailSender
from clusterra_events.mails.service import Mails
from clusterra_events.mails.smtp import SmtpServer, SmtpSubmission
from clusterra_events.webhooks.formats import FormatSender
from clusterra_events.webhooks.service import Webhooks
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.service import Service
from clusterra_runtime.settings import ServiceSettings
from mail_server import SENDER, MailServer

from .webhook_world import LOOPBACK, REF, World

type Asked = list[ReadRecipients]


def address_of(name: str) -> str:
    return f"{name}@acme.example"


@dataclass
class People:
    """Who gets mails, in place of the gateway: everybody whom a test names, and the admins."""

    choices: dict[str, Choices] = field(default_factory=dict)
    admins: tuple[str, ...] = ()
    gone: set[str] = field(default_factory=set)
    """The members who are disabled."""
    asked: Asked = field(default_factory=list)

    async def read(self, _ref: TenantRef, request: ReadRecipients) -> Recipients:
        self.asked.append(request)
        names = (request.user,) if request.user else self.admins
        return Recipients(
            recipients=tuple(
                Recipient(member=f"id-{name}", address=address_of(name), choices=self.choices.get(name, Choices()))
                for name in names
                if name not in self.gone
            )
        )


def job_fact(job_id: str = "42", user: str = "ada", **changes: Any) -> JobFact:
    began = now() - timedelta(minutes=3, seconds=5)
    given: dict[str, Any] = {
        "kind": "job.completed",
        "job_id": job_id,
        "name": "align",
        "user": user,
        "uid": 20001,
        "partition": "main",
        "state": "COMPLETED",
        "submitted_at": began,
        "started_at": began,
        "ended_at": began + timedelta(minutes=3),
        "mail": ("END", "FAIL"),
    }
    return JobFact(**{**given, **changes})


@dataclass
class MailWorld:
    world: World
    people: People

    async def publish(self, *facts: Any) -> None:
        publisher = EventPublisher(self.world.client, "proxy")
        for number, fact in enumerate(facts):
            await publisher.publish(REF, fact, version=f"1.{number}", time=now())

    @asynccontextmanager
    async def mailing(self, server: MailServer, *, per_hour: int = 30, seconds: float = 5.0) -> AsyncIterator[None]:
        """The room of mails as a replica of the service runs it."""
        service = Service("events", ServiceSettings())
        client = self.world.client
        submission = SmtpSubmission(SmtpServer("127.0.0.1", server.port, "none"), seconds=seconds)
        form = MailForm(Address("Clusterra", addr_spec=SENDER), "https://console.example", per_hour)
        sender = MailSender(submission, RecipientReads(client, kept_seconds=0.2), form)
        async with FormatSender(LOOPBACK) as webhook_sender:
            mails = Mails(self.world.store, client, self.world.registry, sender)
            webhooks = Webhooks(self.world.store, client, self.world.registry, webhook_sender, (mails.sweep,))
            subscriptions = [*await webhooks.serve(service), await mails.serve(service)]
            try:
                yield
            finally:
                await service._cancel_background()
                for each in subscriptions:
                    await each.unsubscribe()


@asynccontextmanager
async def known_people(world: World, people: People) -> AsyncIterator[MailWorld]:
    answers = await rpc.serve_tenant(world.client, "mail-recipients.*", ReadRecipients, people.read)
    try:
        yield MailWorld(world, people)
    finally:
        await answers.unsubscribe()
